//! From a request to the handler that answers it, by the rules of the Gateway API (HTTPRoute): host,
//! then exact before longest prefix, then method. The order in the file does not matter.

mod site;
mod table;

pub use site::Site;
pub use table::{Match, Table};
