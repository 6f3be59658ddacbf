use super::*;

/// A world of numbers: inputs, an index kept in stage 1, and units of stages 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Input,
    Index,
    Early,
    Keeper,
    Late,
}

impl MemoKey for Key {
    fn role(&self) -> Role {
        match self {
            Self::Input => Role::Input,
            Self::Index => Role::Index(1),
            Self::Early => Role::Unit(0),
            Self::Keeper => Role::Unit(1),
            Self::Late => Role::Unit(2),
        }
    }
}

fn run(memo: &mut Memo<Key, u32>, stage: usize, unit: impl FnOnce(&Reads<'_, Key, u32>) -> Given<u32>) {
    let (id, _) = memo.next_due(stage).expect("a unit is due");
    let ran = memo.run(id, unit);
    memo.take_in(id, ran);
    memo.forget_unread();
}

#[test]
fn a_unit_without_a_value_runs_again_when_what_it_read_changes() {
    let mut memo = Memo::new(3);
    memo.want(Key::Early);
    run(&mut memo, 0, |reads| {
        reads.note(Key::Input);
        Given::Nothing
    });
    assert!(memo.is_settled() && memo.get(Key::Early).is_none());
    memo.touch(Key::Input);
    run(&mut memo, 0, |_| Given::Value(1));
    assert_eq!(memo.get(Key::Early), Some(&1));
}

#[test]
fn a_unit_whose_subject_is_gone_is_forgotten_with_its_reads() {
    let mut memo = Memo::new(3);
    memo.want(Key::Early);
    run(&mut memo, 0, |reads| {
        reads.note(Key::Input);
        Given::Value(1)
    });
    assert_eq!(memo.len(), 2);
    memo.want(Key::Early);
    run(&mut memo, 0, |reads| {
        reads.note(Key::Input);
        Given::Gone
    });
    assert_eq!(memo.len(), 0);
}

#[test]
fn an_index_wakes_those_who_run_after_its_keeper() {
    let mut memo = Memo::new(3);
    memo.want(Key::Late);
    run(&mut memo, 2, |reads| {
        reads.note(Key::Index);
        Given::Value(1)
    });
    memo.touch(Key::Index);
    assert!(!memo.is_settled());
    assert!(memo.next_due(2).is_some());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "may only read stages before its own")]
fn an_index_is_not_for_its_keepers_stage() {
    let mut memo = Memo::new(3);
    memo.want(Key::Keeper);
    run(&mut memo, 1, |reads| {
        reads.note(Key::Index);
        Given::Value(1)
    });
}

#[test]
fn what_was_read_keeps_its_place_until_it_is_taken_in() {
    let mut memo: Memo<Key, u32> = Memo::new(3);
    let note = |reads: &Reads<'_, Key, u32>| reads.note(Key::Input);
    memo.want(Key::Early);
    run(&mut memo, 0, |reads| {
        note(reads);
        Given::Value(1)
    });
    memo.want(Key::Keeper);
    memo.want(Key::Early);
    let early = memo.take_due(0, 1)[0];
    let keeper = memo.take_due(1, 1)[0];
    // At one time: the last reader goes, and another comes.
    let (gone, come) = (
        memo.run(early, |_| Given::Gone),
        memo.run(keeper, |reads| {
            note(reads);
            Given::Value(2)
        }),
    );
    memo.take_in(early, gone);
    memo.take_in(keeper, come);
    memo.forget_unread();
    assert_eq!(memo.len(), 2);
    memo.touch(Key::Input);
    assert_eq!(memo.take_due(1, 9), [keeper]);
}
