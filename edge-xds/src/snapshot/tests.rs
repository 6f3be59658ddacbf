use super::*;
use bytes::Bytes;

fn entry(name: &str, text: &str) -> Arc<Entry> {
    Arc::new(Entry::new(
        name,
        Body::Whole(Bytes::copy_from_slice(text.as_bytes())),
        Origins::default(),
    ))
}

fn section(entries: &[&Arc<Entry>]) -> Arc<Section> {
    Arc::new(Section::new(entries.iter().map(|entry| Arc::clone(entry)).collect()))
}

#[test]
fn a_section_is_sorted_and_has_each_name_once() {
    let section = section(&[&entry("b", "1"), &entry("a", "2"), &entry("b", "3")]);
    let names: Vec<&str> = section.entries().iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(section.get("b").unwrap().body.contiguous(), "1");
    assert!(section.get("c").is_none());
}

#[test]
fn a_diff_names_what_changed_and_what_is_gone() {
    let (same, old, new) = (entry("a", "1"), entry("b", "1"), entry("b", "2"));
    let (gone, added) = (entry("c", "1"), entry("d", "1"));
    let before = section(&[&same, &old, &gone]);
    let after = section(&[&same, &new, &added]);
    let found = diff(&before, &after);
    assert_eq!(found.changed, [new, added]);
    assert_eq!(found.removed, [Arc::from("c")]);
    assert!(diff(&after, &after).is_empty());
}

#[test]
fn equal_content_is_no_change() {
    let (before, after) = (section(&[&entry("a", "1")]), section(&[&entry("a", "1")]));
    assert!(diff(&before, &after).is_empty());
}

#[test]
fn a_rope_reads_as_its_pieces_and_its_version_depends_on_each() {
    let rope = |parts: &[&'static str]| {
        Body::rope(
            parts
                .iter()
                .map(|part| Arc::new(Piece::new(Bytes::from_static(part.as_bytes()))))
                .collect(),
        )
    };
    let body = rope(&["ab", "c", "de"]);
    assert_eq!(body.contiguous(), "abcde");
    assert_eq!(body.len(), 5);
    assert_eq!(body.version(), rope(&["ab", "c", "de"]).version());
    assert_ne!(body.version(), rope(&["ab", "x", "de"]).version());
    assert_ne!(body.version(), rope(&["c", "ab", "de"]).version());
}

#[test]
fn type_urls_lead_back_to_kinds() {
    for kind in ResourceType::ALL {
        assert_eq!(ResourceType::from_type_url(kind.type_url()), Some(kind));
    }
    assert_eq!(ResourceType::from_type_url("type.googleapis.com/envoy.nope"), None);
}
