//! The reports as JUnit XML, for continuous-integration servers.

use super::{Outcome, Summary};

/// The whole file.
pub fn document(summary: &Summary) -> String {
    let reports = summary.reports();
    let skipped = reports.iter().filter(|report| matches!(report.outcome, Outcome::Skipped { .. })).count();
    let seconds: f64 = reports.iter().map(|report| report.time.as_secs_f64()).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
         <testsuite name=\"gossamer\" tests=\"{}\" failures=\"{}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n",
        reports.len(),
        summary.failed()
    );
    for report in reports {
        let (suite, test) = report.name.rsplit_once('/').unwrap_or(("", &report.name));
        let (suite, test, time) = (escaped(suite), escaped(test), report.time.as_secs_f64());
        text += &format!("<testcase classname=\"{suite}\" name=\"{test}\" time=\"{time:.3}\"");
        text += &match &report.outcome {
            Outcome::Passed => "/>\n".to_owned(),
            Outcome::Skipped { reason } => {
                format!("><skipped message=\"{}\"/></testcase>\n", escaped(reason))
            }
            Outcome::Failed { reason, log } => {
                format!("><failure message=\"{}\">{}</failure></testcase>\n", escaped(reason), escaped(log))
            }
        };
    }
    text + "</testsuite>\n</testsuites>\n"
}

/// Text that is harmless in XML 1.0, which cannot hold most control characters at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Filter, Reporter};
    use super::*;
    use std::time::Duration;

    #[test]
    fn hostile_text_stays_text() {
        let reporter = Reporter::new(Filter::default());
        let outcome = Outcome::Failed { reason: "a < \"b\" & c".into(), log: "\x1b[2J</failure>".into() };
        reporter.report("guest/q", "x", Duration::from_millis(5), outcome);
        let text = document(&reporter.finish());
        assert!(text.contains("tests=\"1\" failures=\"1\" skipped=\"0\""));
        assert!(text.contains("<testcase classname=\"guest/q\" name=\"x\" time=\"0.005\">"));
        assert!(
            text.contains("message=\"a &lt; &quot;b&quot; &amp; c\">\u{fffd}[2J&lt;/failure&gt;</failure>")
        );
    }
}
