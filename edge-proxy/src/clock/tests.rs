use super::*;

fn run<F: Future>(test: impl FnOnce(Rc<Clock>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let clock = Clock::new();
        tokio::task::spawn_local(Rc::clone(&clock).drive());
        test(clock).await
    })
}

#[test]
fn a_deadline_fires_after_its_time_and_says_which_it_was() {
    run(|clock| async move {
        let timer = clock.timer();
        let start = clock.now();
        timer.set(Kind::Route, start, Some(Duration::from_secs(3600)));
        timer.set(Kind::Idle, start, Some(Duration::from_millis(30)));
        assert_eq!(timer.expired().await, Kind::Idle);
        assert!(start.elapsed() >= Duration::from_millis(30));
    });
}

#[test]
fn a_deadline_that_moved_fires_at_its_new_time_only() {
    run(|clock| async move {
        let timer = clock.timer();
        let start = clock.now();
        timer.set(Kind::Idle, start, Some(Duration::from_millis(20)));
        timer.set(Kind::Idle, start, Some(Duration::from_millis(60)));
        timer.expired().await;
        assert!(start.elapsed() >= Duration::from_millis(60));
    });
}

#[test]
fn an_earlier_deadline_wakes_a_sleeping_driver() {
    run(|clock| async move {
        let far = clock.timer();
        far.set(Kind::Idle, clock.now(), Some(Duration::from_secs(4)));
        // Let the driver plan its sleep for the far one.
        tokio::task::yield_now().await;
        let near = clock.timer();
        near.set(Kind::Idle, clock.now(), Some(Duration::from_millis(20)));
        let start = Instant::now();
        near.expired().await;
        assert!(start.elapsed() < Duration::from_secs(2));
    });
}

#[test]
fn a_cleared_deadline_does_not_fire() {
    run(|clock| async move {
        let timer = clock.timer();
        timer.set(Kind::Route, clock.now(), Some(Duration::from_millis(10)));
        timer.set(Kind::PerTry, clock.now(), Some(Duration::from_millis(40)));
        timer.clear(Kind::Route);
        assert!(!timer.is_set(Kind::Route));
        assert_eq!(timer.expired().await, Kind::PerTry);
    });
}

#[test]
fn deadlines_beyond_one_round_of_the_wheel_are_kept() {
    let clock = Clock::new();
    let timer = clock.timer();
    timer.set(Kind::Idle, clock.start, Some(TICK * (SLOTS as u32 + 7)));
    clock.advance(SLOTS as u64);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(timer.poll_expired(&mut cx).is_pending());
    clock.advance(SLOTS as u64 + 7);
    assert_eq!(timer.poll_expired(&mut cx), Poll::Ready(Kind::Idle));
}

#[test]
fn timers_are_recycled_without_their_past() {
    let clock = Clock::new();
    let timer = clock.timer();
    timer.set(Kind::Route, clock.start, Some(TICK));
    let first = Rc::as_ptr(&timer.entry);
    drop(timer);
    let timer = clock.timer();
    assert_eq!(Rc::as_ptr(&timer.entry), first);
    clock.advance(5);
    assert!(timer.poll_expired(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn an_empty_wheel_plans_nothing() {
    let clock = Clock::new();
    assert_eq!(clock.next(), None);
    let timer = clock.timer();
    timer.set(Kind::Idle, clock.start, Some(TICK * 3));
    assert_eq!(clock.next(), Some(3));
    timer.clear(Kind::Idle);
    clock.advance(3);
    assert_eq!(clock.next(), None);
}

#[test]
fn a_short_deadline_after_a_long_one_leaves_nothing_behind() {
    let clock = Clock::new();
    for _ in 0..1000 {
        let timer = clock.timer();
        timer.set(Kind::Idle, clock.now(), Some(Duration::from_secs(300)));
        timer.set(Kind::Route, clock.now(), Some(Duration::from_secs(15)));
    }
    assert_eq!(clock.wheel.borrow().len, 1);
    assert_eq!(clock.free.borrow().len(), 1);
}
