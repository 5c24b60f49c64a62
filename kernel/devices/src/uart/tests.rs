use super::*;
use crate::testing::{assert_nothing_beyond, hammer};

const NOW: Nanos = Nanos(0);

fn read(uart: &mut Uart, offset: u16) -> u8 {
    uart.read(offset, 1, NOW).0 as u8
}

fn write(uart: &mut Uart, offset: u16, value: u8) -> Effects {
    uart.write(offset, 1, value.into(), NOW)
}

/// FIFOs on with a trigger of 8, interrupts to the board.
fn opened(ier: u8) -> Uart {
    let mut uart = Uart::new();
    write(&mut uart, IIR_FCR, 0x81);
    write(&mut uart, MCR, 0x0b);
    write(&mut uart, LCR, 0x03);
    write(&mut uart, IER_DLM, ier);
    uart
}

#[test]
fn bytes_leave_at_once() {
    let mut uart = Uart::new();
    assert_eq!(write(&mut uart, RBR_THR_DLL, b'x').byte, Some(b'x'));
    assert_eq!(read(&mut uart, LSR), 0x60);
}

#[test]
fn the_divisor_hides_behind_dlab() {
    let mut uart = Uart::new();
    write(&mut uart, LCR, 0x80);
    assert_eq!(write(&mut uart, RBR_THR_DLL, 0x0c), Effects::NONE);
    write(&mut uart, IER_DLM, 0x01);
    assert_eq!((read(&mut uart, RBR_THR_DLL), read(&mut uart, IER_DLM)), (0x0c, 0x01));
    write(&mut uart, LCR, 0x03);
    assert_eq!(read(&mut uart, IER_DLM), 0);
    write(&mut uart, SCR, 0xa5);
    assert_eq!(read(&mut uart, SCR), 0xa5);
}

/// What Linux's 8250 driver looks at to find out what this is.
#[test]
fn linux_finds_a_16550a() {
    let mut uart = Uart::new();
    write(&mut uart, IER_DLM, 0xff);
    assert_eq!(read(&mut uart, IER_DLM), 0x0f);
    write(&mut uart, IER_DLM, 0);
    write(&mut uart, MCR, 0x1a);
    assert_eq!(read(&mut uart, MSR) & 0xf0, 0x90, "loopback carries the modem lines");
    write(&mut uart, MCR, 0);
    assert_eq!(read(&mut uart, IIR_FCR), 0x01);
    write(&mut uart, IIR_FCR, 0x01);
    assert_eq!(read(&mut uart, IIR_FCR), 0xc1);
    write(&mut uart, LCR, 0xbf);
    assert_eq!(read(&mut uart, IIR_FCR), 0xc1, "no enhanced features");
    write(&mut uart, LCR, 0);
    write(&mut uart, IIR_FCR, 0x21);
    assert_eq!(read(&mut uart, IIR_FCR) >> 5, 6, "no 64-byte FIFO");
}

/// Linux enables the interrupt twice and wants to see it both times, else it speaks of a problem.
#[test]
fn enabling_the_transmitter_interrupt_raises_it_each_time() {
    let mut uart = opened(0);
    for _ in 0..2 {
        assert_eq!(write(&mut uart, IER_DLM, 0x02).line, Some(true));
        let (iir, effects) = uart.read(IIR_FCR, 1, NOW);
        assert_eq!((iir, effects.line), (0xc2, Some(false)));
        assert_eq!(read(&mut uart, IIR_FCR), 0xc1, "reading it has ended it");
        write(&mut uart, IER_DLM, 0);
    }
    write(&mut uart, IER_DLM, 0x02);
    read(&mut uart, IIR_FCR);
    assert_eq!(write(&mut uart, RBR_THR_DLL, 1).line, Some(true), "empty again");
    assert_eq!(write(&mut uart, IER_DLM, 0).line, Some(false));
}

#[test]
fn causes_have_priorities() {
    let mut uart = opened(0x0f);
    write(&mut uart, MCR, 0x1a);
    for byte in 0..17 {
        write(&mut uart, RBR_THR_DLL, byte);
    }
    assert_eq!(read(&mut uart, IIR_FCR), 0xc6, "line status: the 17th byte overran");
    assert_eq!(read(&mut uart, LSR), 0x63);
    assert_eq!(read(&mut uart, LSR), 0x61);
    assert_eq!(read(&mut uart, IIR_FCR), 0xc4);
    for byte in 0..9 {
        assert_eq!(read(&mut uart, RBR_THR_DLL), byte);
    }
    assert_eq!(read(&mut uart, IIR_FCR), 0xc2, "below the trigger level");
    assert_eq!(read(&mut uart, IIR_FCR), 0xc0, "modem status last");
    assert_eq!(read(&mut uart, MSR) & 0x0f, 0x02, "loopback: DTR, and so DSR, is off");
    assert_eq!(read(&mut uart, IIR_FCR), 0xc1);
}

#[test]
fn the_receive_trigger() {
    let mut uart = opened(0x01);
    for byte in 0..7 {
        assert_eq!(uart.receive(byte, NOW).line, None);
    }
    assert_eq!(uart.receive(7, NOW).line, Some(true));
    assert_eq!(uart.read(RBR_THR_DLL, 1, NOW).1.line, Some(false));
}

#[test]
fn the_receive_timeout() {
    let mut uart = opened(0x01);
    let Deadline::At(due) = uart.receive(b'a', Nanos(1000)).deadline else { panic!("no time-out") };
    assert!((347_000..348_500).contains(&due.0), "four characters of ten bits at 115,200 bit/s: {due:?}");
    assert_eq!(uart.tick(Nanos(due.0 - 1)), Effects { deadline: Deadline::At(due), ..Effects::NONE });
    assert_eq!(uart.tick(due).line, Some(true));
    assert_eq!(read(&mut uart, IIR_FCR), 0xcc);
    let (byte, effects) = uart.read(RBR_THR_DLL, 1, due);
    assert_eq!((byte as u8, effects.line, effects.deadline), (b'a', Some(false), Deadline::Never));
}

#[test]
fn room_and_overrun() {
    let mut uart = Uart::new();
    uart.receive(1, NOW);
    assert!(!uart.can_receive());
    uart.receive(2, NOW);
    assert_eq!(read(&mut uart, LSR) & 3, 3);
    assert_eq!(read(&mut uart, RBR_THR_DLL), 2, "the buffer register is overwritten");
    let mut uart = opened(0);
    for byte in 0..16 {
        assert!(uart.can_receive());
        uart.receive(byte, NOW);
    }
    assert!(!uart.can_receive());
    uart.receive(16, NOW);
    assert_eq!(read(&mut uart, LSR) & 3, 3);
    write(&mut uart, IIR_FCR, 0x03);
    assert_eq!(read(&mut uart, LSR) & 1, 0, "FIFO reset");
    assert!(uart.can_receive());
}

#[test]
fn changing_the_mode_empties_the_fifo() {
    let mut uart = opened(0);
    uart.receive(1, NOW);
    write(&mut uart, IIR_FCR, 0x41);
    assert_eq!(read(&mut uart, LSR) & 1, 1, "still a FIFO");
    write(&mut uart, IIR_FCR, 0x00);
    assert_eq!(read(&mut uart, LSR) & 1, 0);
}

#[test]
fn out2_gates_the_interrupt() {
    let mut uart = opened(0);
    write(&mut uart, MCR, 0x03);
    assert_eq!(write(&mut uart, IER_DLM, 0x02).line, None);
    assert_eq!(write(&mut uart, MCR, 0x0b).line, Some(true));
}

#[test]
fn modem_lines_report_their_changes() {
    let mut uart = opened(0x08);
    assert_eq!(read(&mut uart, MSR), 0xb0);
    assert_eq!(write(&mut uart, MCR, 0x1c).line, Some(true), "loopback: DCD and RI");
    assert_eq!(read(&mut uart, MSR), 0xc3, "CTS and DSR fell; RI has only begun");
    write(&mut uart, MCR, 0x18);
    assert_eq!(read(&mut uart, MSR), 0x84, "the trailing edge of RI");
}

#[test]
fn loopback_is_deaf_and_mute() {
    let mut uart = opened(0);
    write(&mut uart, MCR, 0x10);
    assert_eq!(write(&mut uart, RBR_THR_DLL, 0x42).byte, None);
    assert!(!uart.can_receive());
    uart.receive(0x43, NOW);
    assert_eq!((read(&mut uart, RBR_THR_DLL), read(&mut uart, LSR) & 1), (0x42, 0));
}

#[test]
fn survives_anything() {
    let mut uart = Uart::new();
    assert_nothing_beyond(&mut uart, PORTS);
    hammer(&mut uart, PORTS, |uart, random, now| {
        if uart.can_receive() {
            let overrun = uart.receiver.has_overrun();
            uart.receive(random.next() as u8, now);
            assert_eq!(uart.receiver.has_overrun(), overrun, "there was room");
        }
        assert_eq!(uart.intr, uart.mcr.contains(Mcr::OUT2) && uart.cause().is_some());
    });
}
