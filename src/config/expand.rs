//! `${env:NAME}` and `${env:NAME:-default}` inside strings; `$$` is a dollar sign.
//!
//! Runs after the file was parsed, so a value of the environment can neither move positions nor
//! add syntax. What a variable contains is never part of a message.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The environment as the config sees it; names that are not UTF-8 are left out.
pub(super) type Environment = BTreeMap<String, OsString>;

/// Why a string cannot be expanded.
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// The expanded text and whether a variable took part in it; `None` when there is no `$` at all.
///
/// # Errors
/// An unset variable without default, one that is not UTF-8, or a `${` that is none of the forms.
pub(super) fn expand(text: &str, environment: &Environment) -> Result<Option<(String, bool)>, Fault> {
    if !text.contains('$') {
        return Ok(None);
    }
    let mut expanded = String::with_capacity(text.len());
    let mut from_environment = false;
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('{') {
            let end = inside.find('}').ok_or_else(|| form_fault(inside))?;
            expanded.push_str(&lookup(&inside[..end], environment)?);
            from_environment = true;
            rest = &inside[end + 1..];
        } else {
            // "costs $5" means what it says.
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    Ok(Some((expanded, from_environment)))
}

fn lookup(inside: &str, environment: &Environment) -> Result<String, Fault> {
    let Some(reference) = inside.strip_prefix("env:") else {
        return Err(form_fault(inside));
    };
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    if !is_name(name) {
        return Err(form_fault(""));
    }
    match (environment.get(name), default) {
        // As in a shell, `:-` covers an empty variable too: Compose sets unset ones to "".
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => value.to_str().map(str::to_owned).ok_or_else(|| Fault {
            message: format!("expected UTF-8 in the environment variable {name}"),
            hint: None,
        }),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Fault {
            message: format!("expected the environment variable {name} to be set"),
            hint: Some(format!("or a default as in \"${{env:{name}:-default}}\"")),
        }),
    }
}

fn form_fault(inside: &str) -> Fault {
    Fault {
        message: "expected \"${env:NAME}\" or \"${env:NAME:-default}\" (a dollar sign is \"$$\")".to_owned(),
        hint: is_name(inside).then(|| format!("did you mean \"${{env:{inside}}}\"?")),
    }
}

/// Whether a variable can have this name.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let environment = [("A", "1"), ("EMPTY", ""), ("TRICK", "${env:A}")];
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let found = expand(text, &environment).map(|found| found.map_or(text.to_owned(), |found| found.0));
        let found = found.map_err(|fault| fault.message);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn variables_stand_where_they_are_named() {
        check("plain", Ok("plain"));
        check("a${env:A}b${env:A}", Ok("a1b1"));
        check("${env:NONE:-x:-y}", Ok("x:-y"));
        check("${env:NONE:-}", Ok(""));
        check("${env:EMPTY:-x}", Ok("x"));
        check("${env:EMPTY}", Ok(""));
        check("$$ $${env:A} $5 $", Ok("$ ${env:A} $5 $"));
        check("${env:TRICK}", Ok("${env:A}"));
    }

    #[test]
    fn what_cannot_be_expanded_is_named() {
        let form = "expected \"${env:NAME}\" or \"${env:NAME:-default}\" (a dollar sign is \"$$\")";
        check("${env:NONE}", Err("expected the environment variable NONE to be set"));
        for text in ["${NONE}", "${env:A", "${", "${env:}", "${env:1A}", "${env:A-B}", "${file:/x}"] {
            check(text, Err(form));
        }
    }
}
