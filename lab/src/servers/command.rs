//! Any server, by a command line: the lab knows nothing of it but what its words say.

use std::path::Path;

use super::recipe::{Features, Missing, Place, Recipe};
use super::{setup_word, tool};
use crate::Refusal;
use crate::scenario::Setup;

pub(super) fn recipe(place: &Place<'_>, command: &str) -> Result<Recipe, Missing> {
    let has = |word: &str| command.contains(word);
    if !has("{port}") {
        return Err(Refusal::new(format!("{}: the command needs {{port}}", place.launch.server)).into());
    }
    if place.certificate.is_some() && !(has("{certificate}") && has("{key}")) {
        return Missing::lacks("its command takes no {certificate} and {key}");
    }
    match place.setup() {
        Setup::Usual | Setup::Cold => {}
        Setup::Proxy if has("{backend}") => {}
        _ if has("{setup}") => {}
        other => {
            let word = setup_word(other);
            return Missing::lacks(format!("its command takes no {{setup}}, and this row needs {word}"));
        }
    }
    let words: Result<Vec<String>, Missing> =
        split(command)?.iter().map(|word| filled(word, place)).collect();
    let words = words?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(Refusal::new(format!("{}: the command is empty", place.launch.server)).into());
    };
    let Some(found) = tool::find(program) else {
        return Err(Refusal::new(format!("{}: there is no program {program}", place.launch.server)).into());
    };
    Ok(Recipe {
        program: found,
        arguments: arguments.iter().map(Into::into).collect(),
        config: words.join(" "),
        config_file: None,
        environment: Vec::new(),
        version: None,
        features: Features { notes: "by its command; features not known".into(), ..Features::default() },
    })
}

fn filled(word: &str, place: &Place<'_>) -> Result<String, Missing> {
    let text = |path: &Path| path.display().to_string();
    let mut filled = word
        .replace("{port}", &place.port.to_string())
        .replace("{workers}", &place.workers().to_string())
        .replace("{setup}", setup_word(place.setup()));
    if let Some(certificate) = &place.certificate {
        filled = filled
            .replace("{certificate}", &text(&certificate.certificate))
            .replace("{key}", &text(&certificate.key));
    }
    if let Some(backend) = place.backend()? {
        filled = filled.replace("{backend}", &backend.to_string());
    }
    // Last: a path may hold anything, and is read no more.
    Ok(filled.replace("{root}", &text(&place.root)))
}

/// Words between spaces; quotes keep spaces. No shell: a shell between would get the signals.
fn split(command: &str) -> Result<Vec<String>, Refusal> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_ascii_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(Refusal::new(format!("a quote without its end: {command}")));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        let check = |command: &str, expected: &[&str]| assert_eq!(split(command).unwrap(), expected);
        check("a  b\tc ", &["a", "b", "c"]);
        check("a 'b c' \"d 'e'\"", &["a", "b c", "d 'e'"]);
        check("--root='{root}' ''", &["--root={root}", ""]);
        check("", &[]);
        assert!(split("a 'b").is_err());
    }
}
