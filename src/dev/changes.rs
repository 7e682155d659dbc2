//! What has changed since when: one count for the process, and its telling as server-sent events
//! (HTML Living Standard §9.2).
//!
//! Every answer carries the count as its `id`, and every question the last one that the page knows. So
//! nothing is lost between two connections. The id begins with the run: after a restart no page is up
//! to date, as config, roots and everything missed meanwhile may differ.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::sys::clock;

/// What a change asks of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Style sheets alone are other than they were: they can be swapped in place.
    Styles,
    /// Anything else.
    Page,
}

/// The count at one time.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Changes so far.
    count: u64,
    /// The last of them that was more than style sheets.
    last_of_page: u64,
    /// The process drains: nobody is kept waiting.
    is_ending: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Changes {
    /// Differs from run to run; digits only, as it stands in HTML, in a URL and in a field.
    run: Arc<str>,
    state: watch::Sender<State>,
}

/// Time after which a page asks again, in milliseconds: a change in between is told that much later.
/// Not less, as a page whose server is gone asks as often, with a line in the browser's console each.
const RETRY_MS: u64 = 500;

impl Changes {
    pub(super) fn new() -> Changes {
        let (seconds, milliseconds) = clock::wall_coarse();
        let run = format!("{seconds}{milliseconds:03}").into();
        Changes { run, state: watch::Sender::new(State::default()) }
    }

    pub(super) fn raise(&self, kind: Kind) {
        self.state.send_modify(|state| {
            state.count += 1;
            if kind == Kind::Page {
                state.last_of_page = state.count;
            }
        });
    }

    /// Lets everybody go who waits, now and from now on.
    pub fn end(&self) {
        self.state.send_modify(|state| state.is_ending = true);
    }

    /// Names this moment: a page that is read after it knows all changes up to it.
    pub(super) fn id(&self) -> String {
        id(&self.run, self.state.borrow().count)
    }

    /// One event once there is something that a page does not know, or none after `wait`. Without a
    /// known id everything up to now counts as known.
    pub(super) fn news(&self, known: Option<&[u8]>, wait: Duration) -> impl Future<Output = Vec<u8>> + use<> {
        let mut states = self.state.subscribe();
        let run = Arc::clone(&self.run);
        let known = match known {
            Some(known) => count_of(&run, known),
            None => Some(states.borrow().count),
        };
        async move {
            let is_over = |state: &State| state.is_ending || Some(state.count) != known;
            let _ = tokio::time::timeout(wait, states.wait_for(is_over)).await;
            let state = *states.borrow();
            event(&run, state, known)
        }
    }
}

fn id(run: &str, count: u64) -> String {
    format!("{run}-{count}")
}

/// The count in an id of this run; `None` for anything else.
fn count_of(run: &str, id: &[u8]) -> Option<u64> {
    let count = id.strip_prefix(run.as_bytes())?.strip_prefix(b"-")?;
    std::str::from_utf8(count).ok()?.parse().ok()
}

/// The text of an event stream that ends after one event, or after a comment. Its `id` counts in both.
fn event(run: &str, state: State, known: Option<u64>) -> Vec<u8> {
    let id = id(run, state.count);
    let name = match known {
        Some(known) if known == state.count => {
            return format!("retry: {RETRY_MS}\nid: {id}\n: no change\n\n").into_bytes();
        }
        Some(known) if known >= state.last_of_page && known < state.count => "styles",
        _ => "page",
    };
    // Without data an event is not delivered.
    format!("retry: {RETRY_MS}\nid: {id}\nevent: {name}\ndata: {id}\n\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer that is there at once, or `None` where it would have to wait.
    fn told(changes: &Changes, known: Option<&str>) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut news = std::pin::pin!(changes.news(known.map(str::as_bytes), Duration::from_secs(3600)));
            std::future::poll_fn(|task| {
                std::task::Poll::Ready(match news.as_mut().poll(task) {
                    std::task::Poll::Ready(text) => Some(String::from_utf8(text).unwrap()),
                    std::task::Poll::Pending => None,
                })
            })
            .await
        })
    }

    fn name(text: Option<String>) -> Option<String> {
        let text = text?;
        let line = text.lines().find(|line| line.starts_with("event: ") || line.starts_with(": "))?;
        Some(line.trim_start_matches("event: ").to_owned())
    }

    #[test]
    fn each_page_is_told_what_it_does_not_know() {
        let changes = Changes::new();
        let start = changes.id();
        assert_eq!(told(&changes, Some(&start)), None);
        assert_eq!(told(&changes, None), None);
        changes.raise(Kind::Styles);
        assert_eq!(name(told(&changes, Some(&start))).as_deref(), Some("styles"));
        let styles = changes.id();
        assert_eq!(told(&changes, Some(&styles)), None);
        changes.raise(Kind::Page);
        changes.raise(Kind::Styles);
        // Both were missed: the larger counts.
        assert_eq!(name(told(&changes, Some(&styles))).as_deref(), Some("page"));
        assert_eq!(told(&changes, Some(&changes.id())), None);
    }

    #[test]
    fn an_id_of_another_run_is_never_up_to_date() {
        let changes = Changes::new();
        let ahead = format!("{}-7", changes.run);
        for known in ["1-0", "", "-0", "x", &changes.run, &format!("{}-", changes.run), &ahead] {
            assert_eq!(name(told(&changes, Some(known))).as_deref(), Some("page"), "{known}");
        }
    }

    #[test]
    fn at_the_end_nobody_waits() {
        let changes = Changes::new();
        changes.end();
        let text = told(&changes, None).unwrap();
        assert_eq!(text, format!("retry: 500\nid: {}\n: no change\n\n", changes.id()));
    }

    #[test]
    fn a_wait_without_news_has_an_end() {
        let changes = Changes::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let text = runtime.block_on(async { changes.news(None, Duration::from_millis(1)).await });
        assert!(String::from_utf8(text).unwrap().contains(": no change"));
    }
}
