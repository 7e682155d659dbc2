//! What is wrong with a config, one line a problem: where, what was expected, what may have been meant.
//!
//! All problems of a config are found in one run and sorted by their place. A line never contains the
//! value of a variable that was named by `${env:…}`.

use std::fmt;

/// Where a value comes from; also where a problem is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A place in the config file, counted from 1; columns count characters.
    File {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// An environment variable such as `SCALWS_SERVER__WORKERS`.
    Variable(String),
    /// A flag or an argument of the command line, such as `--listen`.
    Flag(&'static str),
    /// Nobody said anything.
    Default,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the config file, as it was given.
    pub file: String,
    /// Where in it, or which variable or flag.
    pub origin: Origin,
    /// What was expected and what was found.
    pub message: String,
    /// What may have been meant.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = match &self.origin {
            Origin::File { line, column } => format!("{}:{line}:{column}: {}", self.file, self.message),
            Origin::Variable(name) => format!("{name}: {}", self.message),
            Origin::Flag(name) => format!("{name}: {}", self.message),
            Origin::Default => self.message.clone(),
        };
        if let Some(hint) = &self.hint {
            line.push_str(", ");
            line.push_str(hint);
        }
        out.write_str(&one_line(&line))
    }
}

/// Every mistake of one config, sorted by place; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// 2 (usage) when only the command line is wrong, else 78 (`EX_CONFIG` of sysexits.h).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let is_flag = |problem: &Problem| matches!(problem.origin, Origin::Flag(_));
        if self.0.iter().all(is_flag) { 2 } else { 78 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| writeln!(out, "{problem}"))
    }
}

impl std::error::Error for Problems {}

/// Escapes control characters, so that a file name or a value cannot begin a line of its own.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let problem = |origin| Problem {
            file: "a\nb.toml".into(),
            origin,
            message: "expected x\r\n".into(),
            hint: Some("did you mean \"y\"?".into()),
        };
        let file = problem(Origin::File { line: 3, column: 7 });
        assert_eq!(file.to_string(), "a\\nb.toml:3:7: expected x\\r\\n, did you mean \"y\"?");
        let flag = problem(Origin::Flag("--listen"));
        assert_eq!(flag.to_string(), "--listen: expected x\\r\\n, did you mean \"y\"?");
        assert_eq!(Problems(vec![flag.clone()]).exit_code(), 2);
        assert_eq!(Problems(vec![flag, file]).exit_code(), 78);
    }
}
