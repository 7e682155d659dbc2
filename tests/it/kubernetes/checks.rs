//! What schemas do not see in rendered manifests: names that must meet, quantities, versions, time.
//!
//! Every check adds a line that names the object and the place; an empty list is a pass.

use serde_json::Value;

use super::quantity;

/// The one version of each kind that we write: served by every Kubernetes since 1.25.
const VERSIONS: [(&str, &str); 4] =
    [("ConfigMap", "v1"), ("Service", "v1"), ("Deployment", "apps/v1"), ("PodDisruptionBudget", "policy/v1")];

/// Where the image listens without any config.
const HTTP_PORT: u64 = 8080;

/// A rendered set of objects and what was found wrong with it.
pub struct Report<'a> {
    objects: &'a [Value],
    offences: Vec<String>,
}

/// Everything that is wrong, as lines.
pub fn offences(objects: &[Value]) -> Vec<String> {
    let mut report = Report { objects, offences: Vec::new() };
    report.versions_and_names();
    for object in objects {
        match object["kind"].as_str() {
            Some("Deployment") => report.deployment(object),
            Some("Service") => report.service(object),
            Some("PodDisruptionBudget") => {
                report.selects(object, "spec.selector", &object["spec"]["selector"]["matchLabels"]);
            }
            _ => {}
        }
    }
    for kind in ["Deployment", "Service", "PodDisruptionBudget"] {
        if report.of_kind(kind).next().is_none() {
            report.offences.push(format!("there is no {kind}"));
        }
    }
    report.offences
}

fn label(object: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{} {}", part(&object["kind"]), part(&object["metadata"]["name"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A selector meets labels when it has at least one pair and every pair is among them.
fn meets(selector: &Value, labels: &Value) -> bool {
    let Some(wanted) = selector.as_object().filter(|wanted| !wanted.is_empty()) else { return false };
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn named<'a>(all: &'a Value, name: &Value) -> Option<&'a Value> {
    list(all).iter().find(|one| !name.is_null() && one["name"] == *name)
}

/// RFC 1123 as Kubernetes has it for names of objects and containers.
fn is_dns_label(name: &str, length_max: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name.len() <= length_max
        && name.starts_with(is_plain)
        && name.ends_with(is_plain)
        && name.chars().all(|c| is_plain(c) || c == '-')
}

/// A name with a tag other than `latest`, or a digest; the path in lower case.
fn is_pinned_image(image: &str) -> bool {
    if image.contains(char::is_whitespace) {
        return false;
    }
    if let Some((name, digest)) = image.split_once('@') {
        let hex = digest.strip_prefix("sha256:").unwrap_or("");
        return !name.is_empty() && hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit());
    }
    // The colon of a registry's port stands before the last slash.
    let last = image.rsplit('/').next().unwrap_or("");
    let Some((name, tag)) = last.split_once(':') else { return false };
    let is_tag = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    !name.is_empty()
        && !name.contains(|c: char| c.is_ascii_uppercase())
        && !tag.is_empty()
        && tag != "latest"
        && tag.chars().all(is_tag)
}

/// Whole seconds of the form in which the manifests write durations.
fn seconds(text: &str) -> Option<u64> {
    text.strip_suffix('s')?.parse().ok()
}

impl<'a> Report<'a> {
    fn say(&mut self, object: &Value, what: impl std::fmt::Display) {
        self.offences.push(format!("{}: {what}", label(object)));
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let kind = kind.to_owned();
        self.objects.iter().filter(move |object| object["kind"] == kind.as_str())
    }

    fn versions_and_names(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        for object in self.objects {
            let kind = object["kind"].as_str().unwrap_or("");
            match VERSIONS.iter().find(|(known, _)| *known == kind) {
                None => self.say(object, "a kind that this check does not know"),
                Some((_, version)) if object["apiVersion"] != *version => {
                    self.say(object, format!("apiVersion is {}, not {version}", object["apiVersion"]));
                }
                Some(_) => {}
            }
            if !is_dns_label(object["metadata"]["name"].as_str().unwrap_or(""), 63) {
                self.say(object, "its name is no DNS label");
            }
            if !seen.insert(label(object)) {
                self.say(object, "is there twice");
            }
        }
    }

    /// The selector must find the pods of a Deployment; returns it.
    fn selects(&mut self, object: &Value, place: &str, selector: &Value) -> Option<&'a Value> {
        let found = self
            .of_kind("Deployment")
            .find(|deployment| meets(selector, &deployment["spec"]["template"]["metadata"]["labels"]));
        if found.is_none() {
            self.say(object, format!("{place} {selector} selects no pod"));
        }
        found
    }

    fn service(&mut self, service: &Value) {
        let Some(deployment) = self.selects(service, "spec.selector", &service["spec"]["selector"]) else {
            return;
        };
        let containers = list(&deployment["spec"]["template"]["spec"]["containers"]);
        for port in list(&service["spec"]["ports"]) {
            let target = if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
            let found = containers.iter().find_map(|container| port_of(container, target));
            match found {
                None => self.say(service, format!("targetPort {target} is no container's port")),
                Some(HTTP_PORT) => {}
                Some(other) => self.say(service, format!("leads to {other}, where no site is served")),
            }
        }
    }

    fn deployment(&mut self, deployment: &Value) {
        let template = &deployment["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        if !meets(&deployment["spec"]["selector"]["matchLabels"], labels) {
            self.say(deployment, "spec.selector does not meet the labels of its own pods");
        }
        for constraint in list(&template["spec"]["topologySpreadConstraints"]) {
            if !meets(&constraint["labelSelector"]["matchLabels"], labels) {
                self.say(deployment, "a topologySpreadConstraint counts other pods than its own");
            }
        }
        self.pod_rights(deployment, &template["spec"]);
        self.volumes(deployment, &template["spec"]);
        let containers = list(&template["spec"]["containers"]);
        let [container] = containers else {
            self.say(deployment, format!("{} containers, not one", containers.len()));
            return;
        };
        self.container(deployment, container);
        self.grace(deployment, &template["spec"], container);
    }

    fn pod_rights(&mut self, deployment: &Value, pod: &Value) {
        for (place, wanted) in [
            ("/automountServiceAccountToken", Value::from(false)),
            ("/enableServiceLinks", Value::from(false)),
            ("/securityContext/runAsNonRoot", Value::from(true)),
            ("/securityContext/runAsUser", Value::from(65532)),
            ("/securityContext/runAsGroup", Value::from(65532)),
            ("/securityContext/seccompProfile/type", Value::from("RuntimeDefault")),
            ("/containers/0/securityContext/allowPrivilegeEscalation", Value::from(false)),
            ("/containers/0/securityContext/readOnlyRootFilesystem", Value::from(true)),
            ("/containers/0/securityContext/capabilities", serde_json::json!({ "drop": ["ALL"] })),
        ] {
            if pod.pointer(place) != Some(&wanted) {
                let found = pod.pointer(place).unwrap_or(&Value::Null);
                self.say(deployment, format!("{place} is {found}, not {wanted}"));
            }
        }
    }

    fn volumes(&mut self, deployment: &Value, pod: &Value) {
        let mounts = list(&pod["containers"]).iter().flat_map(|container| list(&container["volumeMounts"]));
        let mounts: Vec<&Value> = mounts.collect();
        for mount in &mounts {
            if named(&pod["volumes"], &mount["name"]).is_none() {
                self.say(deployment, format!("mounts {}, which is no volume", mount["name"]));
            }
            if !mount["subPath"].is_null() {
                self.say(deployment, format!("mounts {} by subPath, which is never updated", mount["name"]));
            }
            if mount["readOnly"] != true {
                self.say(deployment, format!("mounts {} for writing", mount["name"]));
            }
        }
        for volume in list(&pod["volumes"]) {
            if !mounts.iter().any(|mount| mount["name"] == volume["name"]) {
                self.say(deployment, format!("nothing mounts volume {}", volume["name"]));
            }
            let map = &volume["configMap"];
            if !map.is_null() && !self.of_kind("ConfigMap").any(|one| one["metadata"]["name"] == map["name"])
            {
                self.say(deployment, format!("volume {} wants ConfigMap {}", volume["name"], map["name"]));
            }
        }
    }

    fn container(&mut self, deployment: &Value, container: &Value) {
        if !is_dns_label(container["name"].as_str().unwrap_or(""), 63) {
            self.say(deployment, "the container's name is no DNS label");
        }
        let image = container["image"].as_str().unwrap_or("");
        if !is_pinned_image(image) {
            self.say(deployment, format!("image {image:?} is no name with a tag of its own or a digest"));
        }
        for port in list(&container["ports"]) {
            let name = port["name"].as_str().unwrap_or("");
            let same = list(&container["ports"]).iter().filter(|other| other["name"] == port["name"]).count();
            if !is_dns_label(name, 15) || same != 1 {
                self.say(deployment, format!("port name {name:?} is no name of its own of up to 15 letters"));
            }
        }
        self.probes(deployment, container);
        self.resources(deployment, container);
    }

    fn probes(&mut self, deployment: &Value, container: &Value) {
        let admin = variable(container, "SCALWS_SERVER__ADMIN");
        // Loopback would answer nobody but the container itself.
        let admin_port = admin.and_then(|text| text.strip_prefix("0.0.0.0:")?.parse::<u64>().ok());
        if admin_port.is_none() {
            self.say(deployment, format!("SCALWS_SERVER__ADMIN is {admin:?}, which no kubelet reaches"));
        }
        for (probe, path) in
            [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
        {
            let get = &container[probe]["httpGet"];
            if get["path"] != path {
                self.say(deployment, format!("{probe} asks for {}, not {path:?}", get["path"]));
            }
            match port_of(container, &get["port"]) {
                None => self.say(deployment, format!("{probe} asks port {}, which is none", get["port"])),
                Some(port) if Some(port) != admin_port => {
                    self.say(deployment, format!("{probe} asks port {port}, the admin port is {admin:?}"));
                }
                Some(_) => {}
            }
        }
    }

    fn resources(&mut self, deployment: &Value, container: &Value) {
        for resource in ["cpu", "memory"] {
            let mut amounts = [None, None];
            for (amount, side) in amounts.iter_mut().zip(["requests", "limits"]) {
                let written = &container["resources"][side][resource];
                *amount = quantity::parse(written);
                if amount.is_none() {
                    self.say(deployment, format!("resources.{side}.{resource} {written} is no quantity"));
                }
            }
            if let [Some(request), Some(limit)] = amounts
                && (request > limit || request <= 0.0)
            {
                self.say(deployment, format!("requests {request} {resource} of at most {limit}"));
            }
            // A node has a page at least; "64m" is a mistake for "64M" that every schema takes.
            if resource == "memory" && amounts.iter().flatten().any(|bytes| *bytes < 1e6) {
                self.say(deployment, "less than a megabyte of memory");
            }
        }
    }

    fn grace(&mut self, deployment: &Value, pod: &Value, container: &Value) {
        let time = |name| variable(container, name).and_then(seconds);
        let (delay, timeout) = (time("SCALWS_SERVER__DRAIN__DELAY"), time("SCALWS_SERVER__DRAIN__TIMEOUT"));
        let grace = pod["terminationGracePeriodSeconds"].as_u64();
        let (Some(delay), Some(timeout), Some(grace)) = (delay, timeout, grace) else {
            self.say(deployment, format!("drain {delay:?} s and {timeout:?} s, grace {grace:?} s"));
            return;
        };
        if grace <= delay + timeout {
            self.say(deployment, format!("killed after {grace} s, drains for {delay} s and {timeout} s"));
        }
    }
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    named(&container["env"], &Value::from(name))?["value"].as_str()
}

/// The number behind a port's name or number, if the container names it.
fn port_of(container: &Value, wanted: &Value) -> Option<u64> {
    let ports = list(&container["ports"]);
    let found = ports.iter().find(|port| match wanted {
        Value::String(name) => port["name"] == name.as_str(),
        number => port["containerPort"] == *number,
    });
    found?["containerPort"].as_u64()
}
