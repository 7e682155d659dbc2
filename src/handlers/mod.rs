//! What answers a route. Handlers take a borrowed request and give a reply or the promise of one;
//! they never see a socket, and reach files through `fs` alone.

pub mod cache_control;
mod clean_urls;
pub mod compress;
pub mod cors;
pub mod error_pages;
pub mod file_headers;
mod found;
pub mod headers;
pub mod listing;
pub mod miss;
pub mod open_files;
pub mod redirect;
pub mod representation;
pub mod respond;
pub mod sidecars;
pub mod spa;
pub mod static_files;

pub use cors::{Cors, Preflight};
pub use error_pages::ErrorPages;
pub use headers::Headers;
pub use listing::Listing;
pub use open_files::OpenFiles;
pub use redirect::Redirect;
pub use respond::Respond;
pub use static_files::StaticFiles;
