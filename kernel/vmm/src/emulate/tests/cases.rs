//! Every instruction with a memory operand, against the table that real CPUs execute in the guest tests.

use super::*;
use instruction_cases::{Form, Outcome as Expected, State, flag, forms};

fn guest(form: &Form, before: &State) -> Guest {
    let mut g = Guest::long();
    g.code(&form.code);
    g.set(Gpr::Rax, before.rax).set(Gpr::Rbx, before.rbx).set(Gpr::Rcx, before.rcx);
    g.set(Gpr::Rdx, before.rdx).set(Gpr::Rsi, DEVICE);
    g.vcpu.rflags = Rflags::ONE | Rflags::from_bits_retain(before.flags);
    g.bus.poke(DEVICE_AT, Width::Qword, before.memory[0]);
    g.bus.poke(DEVICE_AT + 8, Width::Qword, before.memory[1]);
    g
}

fn check(form: &Form, before: &State, expected: &Expected) {
    let mut g = guest(form, before);
    assert_eq!(g.step(), Outcome::Done, "{} with {before:x?}", form.name);
    let after = State {
        rax: g.get(Gpr::Rax),
        rbx: g.get(Gpr::Rbx),
        rcx: g.get(Gpr::Rcx),
        rdx: g.get(Gpr::Rdx),
        flags: g.vcpu.rflags.bits() & flag::ALL & !expected.undefined,
        memory: [0, 8].map(|offset| g.bus.peek(DEVICE_AT + offset, Width::Qword)),
    };
    assert_eq!(after, expected.state, "{} with {before:x?}", form.name);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rsi)), (CODE + g.len, DEVICE));
}

#[test]
fn instructions_do_what_the_table_says() {
    for form in forms() {
        for (before, expected) in &form.cases {
            match expected {
                Some(expected) => check(&form, before, expected),
                None => {
                    let divide_error = Event::exception(Exception::DivideError);
                    assert_eq!(
                        guest(&form, before).step(),
                        Outcome::Fault(divide_error, None),
                        "{}",
                        form.name
                    );
                }
            }
        }
    }
}
