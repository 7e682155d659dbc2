//! The guards: what keeps a promise, and the test that notices when it is gone. Each is taken away as
//! exact text that stands once in its file; `docs/threat-model.md` has a row for each.

mod bounds;
mod files;
mod kept;
mod messages;
mod made;
mod paths;
mod secure;
mod told;

/// A guard, and how it is taken away.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub name: &'static str,
    /// Below the house.
    pub file: &'static str,
    /// Stands in `file` exactly once.
    pub old: &'static str,
    /// What stands there without the guard. It has to compile.
    pub new: &'static str,
    /// Of `tests/it`, or of a source file where it has `::tests::` in it.
    pub test: &'static str,
}

/// All of them, in the order of the threat model.
pub fn guards() -> impl Iterator<Item = &'static Guard> {
    let tables = [
        paths::GUARDS,
        files::GUARDS,
        kept::GUARDS,
        made::GUARDS,
        messages::GUARDS,
        bounds::GUARDS,
        secure::GUARDS,
        told::GUARDS,
    ];
    tables.into_iter().flatten()
}
