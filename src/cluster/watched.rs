//! A core view as kube's watcher wants it.

use std::borrow::Cow;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::api::View;

/// An object as it comes from the API server. Decoding it never fails, because one failure would end a whole page of
/// a list; what can't be read is a [`Fault`] of this object alone.
#[derive(Clone, Debug)]
pub struct Watched<V> {
    /// The view, without its resource version, so that equal views are unchanged objects.
    pub view: Result<V, Fault>,
    /// Name, namespace and resource version.
    metadata: ObjectMeta,
}

/// Where an object could not be read. Its values are not shown: they may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the field {path}")]
pub struct Fault {
    /// The path of the field, such as `spec.volumes[1].name`.
    pub path: String,
}

/// What the watch itself needs of an object, whatever the rest looks like.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Envelope {
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl<'de, V: View> Deserialize<'de> for Watched<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text is copied once and parsed by itself: a view may keep raw text, which no buffered value can give.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::read(text.get()))
    }
}

impl<V: View> Watched<V> {
    fn read(text: &str) -> Self {
        let Ok(mut view) = serde_json::from_str::<V>(text) else {
            let Identity {
                name,
                namespace,
                resource_version,
            } = serde_json::from_str::<Envelope>(text).unwrap_or_default().metadata;
            return Self {
                view: Err(fault::<V>(text)),
                metadata: metadata(name, namespace, resource_version),
            };
        };
        let version = view.take_version().map(String::from);
        let meta = view.meta();
        let namespace = (!meta.namespace.is_empty()).then(|| meta.namespace.to_string());
        let metadata = metadata(Some(meta.name.to_string()), namespace, version);
        Self {
            view: Ok(view),
            metadata,
        }
    }
}

fn metadata(name: Option<String>, namespace: Option<String>, resource_version: Option<String>) -> ObjectMeta {
    ObjectMeta {
        name,
        namespace,
        resource_version,
        ..ObjectMeta::default()
    }
}

/// Reads once more, which only broken objects pay for, to learn where it fails.
fn fault<V: View>(text: &str) -> Fault {
    let result = serde_path_to_error::deserialize::<_, V>(&mut serde_json::Deserializer::from_str(text));
    Fault {
        path: result
            .err()
            .map_or_else(|| ".".to_owned(), |error| error.path().to_string()),
    }
}

impl<V: View> Resource for Watched<V> {
    type DynamicType = ();
    type Scope = DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        V::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        V::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        V::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        V::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;
    use crate::api::{Pod, VirtualMachine};

    const VM: &str = r#"{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine",
        "metadata":{"name":"db","namespace":"prod","resourceVersion":"7","uid":"u","managedFields":[{"manager":"m"}]},
        "spec":{"runStrategy":"Halted","template":{"spec":{"domain":{},"volumes":[{"name":"a","dataVolume":{"name":"db-a"}}]}}}}"#;

    fn event(text: &str) -> Watched<VirtualMachine> {
        match serde_json::from_str::<WatchEvent<Watched<VirtualMachine>>>(text).unwrap() {
            WatchEvent::Modified(object) => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_watch_event_is_decoded_and_the_version_is_taken_out_of_the_view() {
        let object = event(&format!(r#"{{"type":"MODIFIED","object":{VM}}}"#));
        assert_eq!(object.meta().name.as_deref(), Some("db"));
        assert_eq!(object.meta().namespace.as_deref(), Some("prod"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        let view = object.view.unwrap();
        assert_eq!(view.metadata.resource_version, None);
        let spec = &view.template().spec;
        assert_eq!(
            &*spec.json,
            r#"{"domain":{},"volumes":[{"name":"a","dataVolume":{"name":"db-a"}}]}"#
        );
        assert_eq!(spec.volumes.len(), 1);
    }

    #[test]
    fn a_page_of_a_list_is_decoded_and_a_broken_object_does_not_break_it() {
        let page = format!(
            r#"{{"kind":"VirtualMachineList","apiVersion":"kubevirt.io/v1","metadata":{{"resourceVersion":"9","continue":"more"}},
            "items":[{VM},{{"metadata":{{"name":"bad","namespace":"prod","resourceVersion":"8"}},"spec":{{"running":"SECRET"}}}}]}}"#
        );
        let page: ObjectList<Watched<VirtualMachine>> = serde_json::from_str(&page).unwrap();
        assert_eq!(page.metadata.continue_.as_deref(), Some("more"));
        let [good, bad] = &page.items[..] else { panic!() };
        assert_eq!(good.view.as_ref().unwrap().template().spec.volumes.len(), 1);
        assert_eq!(bad.meta().name.as_deref(), Some("bad"));
        assert_eq!(bad.meta().resource_version.as_deref(), Some("8"));
        let fault = bad.view.as_ref().unwrap_err();
        assert_eq!(fault.to_string(), "cannot read the field spec.running");
    }

    #[test]
    fn bookmarks_and_errors_are_understood() {
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "12"}}});
        let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}});
        let read = |value: serde_json::Value| serde_json::from_str::<WatchEvent<Watched<Pod>>>(&value.to_string());
        assert!(matches!(read(bookmark), Ok(WatchEvent::Bookmark(mark)) if mark.metadata.resource_version == "12"));
        assert!(matches!(read(error), Ok(WatchEvent::Error(status)) if status.code == 410));
    }

    #[test]
    fn each_kind_is_asked_for_under_its_own_path() {
        assert_eq!(Watched::<Pod>::url_path(&(), None), "/api/v1/pods");
        assert_eq!(
            Watched::<VirtualMachine>::url_path(&(), Some("prod")),
            "/apis/kubevirt.io/v1/namespaces/prod/virtualmachines"
        );
    }
}
