//! `--assert 'static-1k:scalws/nginx<=1.0'`: a claim that decides over the exit code.

use super::record::Results;
use crate::Refusal;

/// A claim about the median of ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    text: String,
    scenario: String,
    of: String,
    to: String,
    operator: Operator,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    AtMost,
    Below,
    AtLeast,
    Above,
}

/// Longer ones first: `<=` is no `<`.
const OPERATORS: [(&str, Operator); 4] =
    [("<=", Operator::AtMost), (">=", Operator::AtLeast), ("<", Operator::Below), (">", Operator::Above)];

impl Assertion {
    /// Reads it against the names of this run: a claim about a row that will not be there is a mistake.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn parse(text: &str, scenarios: &[&str], servers: &[String]) -> Result<Assertion, Refusal> {
        let wrong = |why: String| Refusal::new(format!("--assert '{text}': {why}"));
        let form = "expected SCENARIO:SERVER/SERVER<=NUMBER (or <, >=, >)";
        let (scenario, rest) = text.split_once(':').ok_or_else(|| wrong(form.to_owned()))?;
        let (pair, operator, bound) = OPERATORS
            .iter()
            .find_map(|(sign, operator)| {
                let (pair, bound) = rest.rsplit_once(sign)?;
                Some((pair.trim(), *operator, bound.trim()))
            })
            .ok_or_else(|| wrong(form.to_owned()))?;
        let bound_number = bound.parse().ok().filter(|bound: &f64| bound.is_finite() && *bound > 0.0);
        let bound = bound_number.ok_or_else(|| wrong(format!("\"{bound}\" is no ratio above 0")))?;
        let scenario = scenario.trim();
        if !scenarios.contains(&scenario) {
            let known = scenarios.join(", ");
            return Err(wrong(format!("no scenario \"{scenario}\" in this run; there are: {known}")));
        }
        if !pair.contains('/') {
            return Err(wrong(form.to_owned()));
        }
        // A build of a branch may have a slash in its name: every split is tried.
        let known = |name: &str| servers.iter().any(|server| server == name);
        let splits = pair.match_indices('/').map(|(at, _)| (pair[..at].trim(), pair[at + 1..].trim()));
        let found = splits.clone().find(|(of, to)| known(of) && known(to));
        let Some((of, to)) = found else {
            let unknown = splits.flat_map(|(of, to)| [of, to]).find(|name| !known(name)).unwrap_or(pair);
            let known = servers.join(", ");
            return Err(wrong(format!("no server \"{unknown}\" in this run; there are: {known}")));
        };
        Ok(Assertion {
            text: text.to_owned(),
            scenario: scenario.to_owned(),
            of: of.to_owned(),
            to: to.to_owned(),
            operator,
            bound,
        })
    }

    /// Whether it holds, by the median of the ratios; and the line that says so.
    #[must_use]
    pub fn judge(&self, results: &Results) -> (bool, String) {
        let case = results.cases.iter().find(|case| case.scenario == self.scenario && !case.is_sweep);
        let ratio = case.and_then(|case| case.row(&self.of)?.ratio_to(case.row(&self.to)?));
        let Some(ratio) = ratio else {
            return (false, format!("{}: failed, there is no such ratio", self.text));
        };
        let holds = match self.operator {
            Operator::AtMost => ratio.median <= self.bound,
            Operator::Below => ratio.median < self.bound,
            Operator::AtLeast => ratio.median >= self.bound,
            Operator::Above => ratio.median > self.bound,
        };
        let verdict = if holds { "holds" } else { "failed" };
        let spread = format!("{:.3} ({:.3}–{:.3})", ratio.median, ratio.min, ratio.max);
        (holds, format!("{}: {verdict}, {spread}", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples;

    fn parse(text: &str) -> Result<Assertion, String> {
        let servers = ["scalws", "nginx", "scalws@a/b"].map(str::to_owned);
        Assertion::parse(text, &["static-1k", "respond"], &servers).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn wrong(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap_err(), format!("--assert '{text}': {expected}"));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let form = "expected SCENARIO:SERVER/SERVER<=NUMBER (or <, >=, >)";
        wrong("", form);
        wrong("static-1k", form);
        wrong("static-1k:scalws/nginx", form);
        wrong("static-1k:scalws/nginx=1", form);
        wrong("static-1k:scalws<=1", form);
        wrong("static-1k:scalws/nginx<=", "\"\" is no ratio above 0");
        wrong("static-1k:scalws/nginx<=fast", "\"fast\" is no ratio above 0");
        wrong("static-1k:scalws/nginx<=NaN", "\"NaN\" is no ratio above 0");
        wrong("static-1k:scalws/nginx<=-1", "\"-1\" is no ratio above 0");
        wrong("static-1k:scalws/nginx<=1.0x", "\"1.0x\" is no ratio above 0");
        let known = "in this run; there are: ";
        wrong("static-2k:scalws/nginx<1", &format!("no scenario \"static-2k\" {known}static-1k, respond"));
        let servers = "scalws, nginx, scalws@a/b";
        wrong("respond:scalws/ngnix<1", &format!("no server \"ngnix\" {known}{servers}"));
        wrong("respond:h2o/nginx<1", &format!("no server \"h2o\" {known}{servers}"));
    }

    #[test]
    fn names_with_a_slash_and_spaces_are_found() {
        let found = parse("respond: scalws / scalws@a/b >= 0.9").unwrap();
        assert_eq!((found.of.as_str(), found.to.as_str()), ("scalws", "scalws@a/b"));
        assert_eq!((found.operator, found.bound), (Operator::AtLeast, 0.9));
        assert_eq!(parse("respond:scalws@a/b/nginx>1").unwrap().of, "scalws@a/b");
    }

    #[track_caller]
    fn judged(text: &str, expected: &str) {
        let (holds, line) = parse(text).unwrap().judge(&samples::results());
        assert_eq!(line, format!("{text}: {expected}"));
        assert_eq!(holds, expected.starts_with("holds"));
    }

    /// The sample has 0.5, 0.4 and 0.6 in its rounds.
    #[test]
    fn the_median_decides() {
        judged("static-1k:scalws/nginx<=0.5", "holds, 0.500 (0.400–0.600)");
        judged("static-1k:scalws/nginx<0.5", "failed, 0.500 (0.400–0.600)");
        judged("static-1k:scalws/nginx>=0.5", "holds, 0.500 (0.400–0.600)");
        judged("static-1k:scalws/nginx>0.5", "failed, 0.500 (0.400–0.600)");
        judged("static-1k:nginx/scalws<=1.9", "failed, 2.000 (1.667–2.500)");
    }

    #[test]
    fn without_a_number_it_fails() {
        judged("respond:scalws/nginx<=9", "failed, there is no such ratio");
        let mut results = samples::results();
        results.cases[0].rows[0].refused = Some("404".into());
        assert!(!parse("static-1k:scalws/nginx<=9").unwrap().judge(&results).0);
    }
}
