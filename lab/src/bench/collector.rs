//! Who takes the spans of a server in a comparison, on the CPUs of the lab: a collector that counts and does not read,
//! or a port at which nobody listens. Either way the row says what became of its spans.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::Refusal;
use crate::servers::Sampled;
use crate::traces::{Keep, Receiver, Told};

/// See the module.
#[derive(Debug)]
pub struct Collector {
    sampled: Sampled,
    address: SocketAddr,
    receiver: Option<Receiver>,
    /// A port that is taken and refuses: nobody else can listen there meanwhile.
    _refusing: Option<OwnedFd>,
}

impl Collector {
    /// Before its server starts. Its thread has the CPUs of the calling one.
    ///
    /// # Errors
    /// There is no port.
    pub fn start(sampled: Sampled) -> Result<Collector, Refusal> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if sampled.has_collector() {
            let receiver = Receiver::start(any, Keep::Sizes, None)?;
            let address = receiver.address();
            return Ok(Collector { sampled, address, receiver: Some(receiver), _refusing: None });
        }
        let at = |error| Refusal::new(format!("no port for nobody: {error}"));
        let refusing = socket(AddressFamily::INET, SocketType::STREAM, None).map_err(at)?;
        bind(&refusing, &any).map_err(at)?;
        let address = getsockname(&refusing).map_err(at)?;
        let address = SocketAddr::try_from(address).map_err(at)?;
        Ok(Collector { sampled, address, receiver: None, _refusing: Some(refusing) })
    }

    /// Of the server's environment.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        self.sampled.variables(self.address)
    }

    /// What became of the spans of a server that has ended, from its log.
    ///
    /// # Errors
    /// They went another way than the row says: it would measure something else.
    pub fn judge(&self, log: &str) -> Result<Told, Refusal> {
        let told = Told::read(log).ok_or_else(|| Refusal::new("no word about spans at its end"))?;
        let messages = self.receiver.as_ref().map_or(0, Receiver::messages);
        let is_right = match self.sampled {
            Sampled::Percent | Sampled::All => told.exported > 0 && messages > 0,
            Sampled::Down => told.made > 0 && told.exported == 0 && told.lost() > 0,
        };
        if is_right {
            return Ok(told);
        }
        Err(Refusal::new(format!("its spans went astray: {told}; the collector took {messages} messages")))
    }
}
