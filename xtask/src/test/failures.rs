//! What failing tests said, kept so that it can be told once more behind the last tier: a run prints many thousands of
//! lines, and what failed in its midst is lost to who sees only their end.

use std::collections::VecDeque;

/// As many lines of what a failing test printed last as are told again.
const LINES: usize = 60;
/// As many of those that it printed first: what failed stands there, and behind it what may explain it, such as logs.
const FIRST: usize = 40;
/// As many characters of a line as are told again.
const WIDTH: usize = 400;

/// Reads the output of `cargo test` or `go test` line by line.
#[derive(Default)]
pub(super) struct Failures {
    /// The last lines, for outputs that say what happened before they say that it was a failure.
    recent: VecDeque<String>,
    /// The part of libtest's output that lists what failing tests printed, while it is read.
    open: Option<Vec<String>>,
    told: Vec<String>,
}

impl Failures {
    /// Reads the next line.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(block) = &mut self.open {
            block.push(line.to_owned());
            if line.starts_with("test result: ") {
                self.close();
            }
        } else if line == "failures:" {
            self.open = Some(Vec::new());
        } else if line.starts_with("--- FAIL: ") {
            self.recent.push_back(line.to_owned());
            self.told.push(lines(self.recent.iter()));
            self.recent.clear();
        } else {
            self.recent.push_back(line.to_owned());
            if self.recent.len() > LINES {
                self.recent.pop_front();
            }
        }
    }

    /// All that failed; of a command that failed without saying so, its last lines.
    pub(super) fn end(mut self, failed: bool) -> Vec<String> {
        self.close();
        if failed && self.told.is_empty() {
            self.told.push(lines(self.recent.iter()));
        }
        self.told
    }

    /// libtest lists what each failing test printed, then the names of all of them.
    fn close(&mut self) {
        if let Some(block) = self.open.take() {
            let begins = |_: &String, line: &String| !(line.starts_with("---- ") && line.ends_with(" stdout ----"));
            let parts = block
                .chunk_by(begins)
                .map(|part| match part.len().checked_sub(FIRST + LINES) {
                    None | Some(0) => lines(part.iter()),
                    Some(left_out) => {
                        let (first, last) = (&part[..FIRST], &part[FIRST + left_out..]);
                        let told_of = format!("… {left_out} lines …");
                        lines(first.iter().chain([&told_of]).chain(last))
                    }
                });
            self.told.push(parts.collect::<Vec<_>>().join("\n"));
        }
    }
}

fn lines<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.map(|line| narrow(line)).collect::<Vec<_>>().join("\n")
}

fn narrow(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(output: &str, failed: bool) -> Vec<String> {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        failures.end(failed)
    }

    #[test]
    fn what_a_failing_test_printed_is_kept_with_its_name() {
        let output = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n1 is not 2\n\n\nfailures:\n    b\n\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored\ntest c ... ok\n";
        let [told] = &told(output, true)[..] else {
            panic!("one block")
        };
        assert!(told.contains("1 is not 2") && told.contains("    b\n"), "{told}");
        assert!(!told.contains("test c"), "{told}");
    }

    #[test]
    fn of_much_that_each_test_printed_its_start_and_end_are_kept() {
        let mut output = "failures:\n\n".to_owned();
        for test in ["a", "b"] {
            output += &format!("---- {test} stdout ----\nError: {test} went wrong\n");
            (0..1000).for_each(|n| output += &format!("log {test} {n} {}\n", "x".repeat(5000)));
            output += &format!("stack of {test}\n\n");
        }
        output += "failures:\n    a\n    b\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        let [told] = &told(&output, true)[..] else {
            panic!("one block")
        };
        for test in ["a", "b"] {
            for said in [
                "Error: {} went wrong",
                "log {} 1 ",
                "log {} 999 ",
                "stack of {}\n",
                "    {}\n",
            ] {
                let said = said.replace("{}", test);
                assert!(told.contains(&said), "{said} is missing");
            }
            assert!(!told.contains(&format!("log {test} 500 ")));
        }
        assert!(told.contains("lines …") && told.len() < 2 * (FIRST + LINES + 3) * (WIDTH + 4));
    }

    #[test]
    fn a_failing_test_of_go_is_kept_with_what_came_before() {
        let told = told(
            "=== RUN   TestA\n    a_test.go:3: no\n--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\n",
            true,
        );
        assert_eq!(told, ["=== RUN   TestA\n    a_test.go:3: no\n--- FAIL: TestA (0.00s)"]);
    }

    #[test]
    fn of_a_command_that_says_nothing_of_its_failure_the_end_is_kept() {
        assert_eq!(told("one\ntwo\n", true), ["one\ntwo"]);
        assert!(told("one\ntwo\n", false).is_empty());
    }
}
