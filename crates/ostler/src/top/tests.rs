//! The dashboard as a pure thing: states, keys and times in; cells out.

use std::time::Duration;

use model::rules::attention::{AttentionFacts, AttentionGroup, AttentionPlace};
use model::session::{SessionKind, SessionName};
use model::status::{Activity, Status};
use model::time::Time;
use proptest::prelude::*;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Modifier;

use super::draw::{TopDrawing, next_age_change};
use super::input::{TopInput, TopInputParser};
use super::list::{ListLine, TopSelection};
use super::palette::TopPalette;
use super::pane::{PaneKind, PaneText, PaneTone};
use super::row::{TopRow, harmless};
use super::state::{TopAction, TopConsent, TopMode, TopState};

mod consent;
mod escape;
mod needing;
mod typing;

const NOW: Time = Time::from_millis(1_800_000_000_000);
const PLAIN: TopPalette = TopPalette { has_colour: false, is_ascii: false };

fn ago(seconds: u64) -> Time {
    NOW.minus(Duration::from_secs(seconds))
}

fn row(id: &str, activity: Activity, seconds: u64, doing: &str) -> TopRow {
    let name = SessionName::new("claude-code", id);
    let facts = AttentionFacts {
        kind: SessionKind::Native,
        status: Status::Running,
        activity: Some(activity),
        last_sign: Some(ago(seconds)),
    };
    let looked = Some(ago(600)).filter(|_| id.starts_with("done"));
    TopRow {
        place: AttentionPlace::of_facts(&facts, name.clone(), looked, NOW),
        kind: SessionKind::Native,
        status: Status::Running,
        label: id.to_owned(),
        agent: "claude".to_owned(),
        doing: doing.to_owned(),
        project: "api".to_owned(),
        branch: "main".to_owned(),
        last_sign: Some(ago(seconds)),
        tokens: Some(182_000),
        cost_micro_usd: Some(410_000).filter(|_| id == "gateway-auth"),
        derived: id == "load-test",
        stale: id == "migrate",
        pinned: false,
        terminal: Some(format!("T-{id}")),
        doubt: "foreign namespace".to_owned(),
        fits: true,
        name,
    }
}

fn some_rows() -> Vec<TopRow> {
    let mut rows = vec![
        row("docs-site", Activity::Waiting, 660, "Which of the two layouts?"),
        row("gateway-auth", Activity::Waiting, 120, "Allow Bash: cargo test -p gate"),
        row("done-flaky", Activity::Idle, 360, "Fixed: the clock was read twice"),
        row("parser-rewrite", Activity::Working, 3, "Edit grammar.rs"),
        row("load-test", Activity::Working, 180, "Bash: k6 run"),
        row("migrate", Activity::Working, 4320, "Move orders"),
        row("lost", Activity::Unknown, 9000, "somewhere else"),
    ];
    rows.extend((0..13).map(|n| row(&format!("idle-{n}"), Activity::Idle, 700 + n, "rests")));
    rows
}

fn state_of(columns: u16, screen_rows: u16, rows: Vec<TopRow>) -> TopState {
    let mut state = TopState::new(columns, screen_rows, ago(600));
    state.apply_rows(rows, NOW);
    state
}

fn press(state: &mut TopState, bytes: &[u8], now: Time) -> Vec<TopAction> {
    let mut parser = TopInputParser::default();
    let mut inputs = parser.feed(bytes);
    inputs.extend(parser.flush_held());
    inputs.into_iter().flat_map(|input| state.apply_input(input, now)).collect()
}

fn draw(state: &TopState, palette: TopPalette) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, state.columns, state.screen_rows));
    TopDrawing { state, screen: None, palette, now: NOW }.draw(&mut buffer);
    buffer
}

fn text_of(buffer: &Buffer) -> String {
    let mut page = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = crate::render::text::display_width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page
}

fn selected(state: &TopState) -> String {
    match &state.selection {
        Some(TopSelection::Session(name)) => name.id.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn row_02_n_goes_round_those_that_need_somebody_and_says_when_there_is_none() {
    let mut state = state_of(120, 40, some_rows());
    assert_eq!(selected(&state), "docs-site", "who waits longest is first");
    press(&mut state, b"n", NOW);
    assert_eq!(selected(&state), "gateway-auth");
    press(&mut state, b"jj", NOW);
    press(&mut state, b"n", NOW);
    assert_eq!(selected(&state), "docs-site", "it wraps, from any group");
    press(&mut state, b"N", NOW);
    assert_eq!(selected(&state), "gateway-auth");
    let mut quiet = state_of(120, 40, vec![row("idle-1", Activity::Idle, 9, "rests")]);
    press(&mut quiet, b"n", NOW);
    assert_eq!(quiet.message.as_deref(), Some("Nobody needs you."));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn row_03_the_selection_follows_its_session_through_every_reorder(
        ages in prop::collection::vec((0u64..5000, 0usize..4), 20),
        place in 0usize..20,
    ) {
        let activities = Activity::ALL;
        let rows = |shift: u64| -> Vec<TopRow> {
            ages.iter().enumerate().map(|(n, (age, activity))| {
                let age = (age + shift * (n as u64 + 7)) % 5000;
                row(&format!("s{n}"), activities[activity % activities.len()], age, "x")
            }).collect()
        };
        let mut state = state_of(80, 24, rows(0));
        state.folds = [false, false];
        let name = SessionName::new("claude-code", format!("s{place}"));
        state.select(TopSelection::Session(name.clone()), NOW);
        state.fit_scroll();
        for shift in 1..5 {
            let later = NOW.plus(Duration::from_secs(shift));
            state.apply_rows(rows(shift), later);
            prop_assert_eq!(&state.selection, &Some(TopSelection::Session(name.clone())));
            let page = text_of(&draw(&state, PLAIN));
            let marked = page.lines().find(|line| line.starts_with('▌')).unwrap_or("");
            let label = format!("s{} ", place);
            prop_assert!(marked.contains(&label), "it is on the screen: {page}");
        }
    }
}

proptest! {
    #[test]
    fn row_01_who_needs_somebody_comes_first_whatever_the_others_do(
        mix in prop::collection::vec(
            (0..Status::ALL.len(), prop::option::of(0..Activity::ALL.len()), 0u64..9000, 0u64..3),
            1..24,
        ),
        by_project in any::<bool>(),
    ) {
        let rows = mix.iter().enumerate().map(|(number, (status, activity, age, project))| {
            let facts = AttentionFacts {
                kind: SessionKind::Native,
                status: Status::ALL[*status],
                activity: activity.map(|one| Activity::ALL[one]),
                last_sign: Some(ago(*age)),
            };
            let made = row(&format!("s{number}"), Activity::Working, *age, "x");
            let place = AttentionPlace::of_facts(&facts, made.name.clone(), Some(ago(600)), NOW);
            TopRow { place, status: facts.status, project: format!("p{project}"), ..made }
        });
        let mut state = state_of(120, 40, rows.collect());
        state.folds = [false, false];
        press(&mut state, if by_project { b"ao" } else { b"a" }, NOW);
        let listed: Vec<&TopRow> = state.list_lines().iter().filter_map(|line| match line {
            ListLine::Row(index) => Some(&state.rows[*index]),
            _ => None,
        }).collect();
        prop_assert_eq!(listed.len(), mix.len(), "everybody is listed once");
        let needs = |row: &&&TopRow| row.group() == AttentionGroup::NeedsYou;
        let first = listed.iter().take_while(needs).count();
        prop_assert_eq!(first, listed.iter().filter(needs).count(), "nobody stands before them");
        prop_assert!(listed[..first].is_sorted_by_key(|row| row.last_sign), "the longest first");
    }
}

#[test]
fn row_04_what_moves_under_enter_is_not_what_is_opened() {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"n", NOW);
    let mut rows = some_rows();
    rows.retain(|row| row.name.id != "docs-site");
    state.apply_rows(rows, NOW.plus(Duration::from_millis(10)));
    let opened = press(&mut state, b"\r", NOW.plus(Duration::from_millis(20)));
    assert_eq!(opened, [TopAction::Attach { terminal: "T-gateway-auth".to_owned() }]);
}

#[test]
fn row_05_order_waits_until_nobody_has_typed_for_400_ms() {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"j", NOW);
    let mut rows = some_rows();
    rows.remove(0);
    let at = |ms| NOW.plus(Duration::from_millis(ms));
    assert!(!state.apply_rows(rows, at(399)));
    assert_eq!(state.order_due(), Some(at(400)));
    assert!(!state.settle_order(at(399)));
    assert_eq!(state.rows.len(), 20);
    assert!(state.settle_order(at(400)));
    assert_eq!(state.rows.len(), 19);
}

#[test]
fn row_06_idle_ones_are_a_number_and_unknown_ones_another() {
    let state = state_of(120, 40, some_rows());
    let page = text_of(&draw(&state, PLAIN));
    assert!(page.contains("○ 13 idle ▸"), "{page}");
    assert!(page.contains("? 1 unknown: foreign namespace ▸"), "{page}");
    assert!(!page.contains("idle-3"));
    let mut state = state;
    press(&mut state, b"z", NOW);
    let page = text_of(&draw(&state, PLAIN));
    assert!(page.contains("idle-3") && page.contains("lost"), "{page}");
}

#[test]
fn row_07_every_size_has_its_picture_and_none_panics() {
    for (columns, rows) in [(60, 15), (80, 24), (120, 40), (200, 50)] {
        let mut state = state_of(columns, rows, some_rows());
        state.pane_text = PaneText::of_page(
            "you 14:28:59\n  Move the token check\nagent 14:29:07\n  It happens twice.",
        );
        state.why = Some("proven: the agent's own word on what it is doing, 14:29:07".to_owned());
        insta::assert_snapshot!(format!("top_{columns}x{rows}"), text_of(&draw(&state, PLAIN)));
    }
    let ascii = TopPalette { has_colour: false, is_ascii: true };
    let page = text_of(&draw(&state_of(80, 24, some_rows()), ascii));
    assert!(page.is_ascii(), "{page}");
    let mut foreign = state_of(80, 24, some_rows());
    foreign.rows[0].doing = "日本 ┌─┐ café 🦀".to_owned();
    foreign.pane_text = PaneText::of_page("│ ❯ 1. Yes │ 漢字");
    let page = text_of(&draw(&foreign, ascii));
    assert!(page.is_ascii() && page.contains("| > 1. Yes | ??"), "{page}");
    insta::assert_snapshot!("top_80x24_ascii", page);
    let coloured = TopPalette { has_colour: true, is_ascii: false };
    for columns in [0, 1, 2, 5, 20, 59, 60, 99, 100, 300] {
        for rows in [0, 1, 2, 3, 14, 15, 20, 100] {
            for keys in [&b""[..], b"?", b"/is:", b"\t", b"r", b"w", b"jjjG", b"io"] {
                let mut state = state_of(columns, rows, some_rows());
                press(&mut state, keys, NOW);
                draw(&state, coloured);
            }
        }
    }
}

#[test]
fn row_11_what_is_typed_goes_to_the_terminal_and_nowhere_else() {
    let mut state = state_of(120, 40, some_rows());
    let begun = press(&mut state, b"i", NOW);
    assert_eq!(begun, [TopAction::StartTyping { terminal: "T-docs-site".to_owned() }]);
    let before = selected(&state);
    let typed = press(&mut state, b"jq\x03y\r", NOW);
    assert_eq!(typed.len(), 5);
    assert!(typed.iter().all(|action| matches!(action, TopAction::Type(_))), "{typed:?}");
    assert_eq!(selected(&state), before, "the list did not move, and nothing was ended");
    assert_eq!(press(&mut state, b"\x1d", NOW), [TopAction::EndTyping]);
    assert_eq!(press(&mut state, b"q", NOW), [TopAction::Quit]);
}

#[test]
fn row_12_a_reply_belongs_to_the_session_it_was_begun_for() {
    let mut state = state_of(120, 40, some_rows());
    let parser = SessionName::new("claude-code", "parser-rewrite");
    state.select(TopSelection::Session(parser.clone()), NOW);
    press(&mut state, b"rgo on", NOW);
    // The session is gone from the list, and the selection is another one.
    let mut rows = some_rows();
    rows.retain(|row| row.name != parser);
    state.apply_rows(rows, NOW.plus(Duration::from_secs(1)));
    assert_ne!(selected(&state), "parser-rewrite");
    let sent = press(&mut state, b", please\r", NOW);
    let text = "go on, please".to_owned();
    assert!(
        matches!(&sent[..], [TopAction::Deliver { target, text: sent, .. }]
            if *target == parser && *sent == text),
        "{sent:?}"
    );
    assert_eq!(state.drafts[&parser].text(), text, "kept until there is a receipt");
}

#[test]
fn row_12_a_draft_is_kept_and_an_open_question_closes_the_box() {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"r", NOW);
    assert_eq!(state.mode, TopMode::List, "Enter would answer the question");
    assert!(state.message.as_deref().unwrap().contains("question"));
    let parser = SessionName::new("claude-code", "parser-rewrite");
    state.select(TopSelection::Session(parser), NOW);
    press(&mut state, b"rhalf\x1b", NOW);
    assert_eq!(state.mode, TopMode::List);
    press(&mut state, b"r done", NOW);
    let sent = press(&mut state, b"\r", NOW);
    assert!(matches!(&sent[0], TopAction::Deliver { text, .. } if text == "half done"));
}

#[test]
fn row_14_only_y_consents_and_only_to_what_was_shown() {
    let mut state = state_of(120, 40, some_rows());
    let target = SessionName::new("claude-code", "docs-site");
    assert_eq!(press(&mut state, b"s", NOW), [TopAction::PlanStop(target.clone())]);
    let consent = TopConsent::Stop(target);
    let plan = PaneText::of_page("pid 4711 claude (started 99) would end");
    for no in [&b"s"[..], b"\r", b" ", b"n", b"\x1b"] {
        state.show_plan(plan.clone(), TopMode::Confirm(consent.clone()));
        let done = press(&mut state, no, NOW);
        assert!(!done.iter().any(|action| matches!(action, TopAction::Consent(_))), "{no:?}");
        assert_eq!(state.mode, TopMode::List);
    }
    state.show_plan(plan, TopMode::Confirm(consent.clone()));
    assert!(text_of(&draw(&state, PLAIN)).contains("pid 4711 claude (started 99)"));
    state.note_plan_drawn(ago(1));
    assert_eq!(press(&mut state, b"y", NOW), [TopAction::Consent(consent)]);
}

#[test]
fn row_14_what_is_consented_to_is_shown_until_it_is_answered() {
    let mut state = state_of(120, 40, some_rows());
    state.filter.insert("session");
    let consent = TopConsent::CleanUp { plan: "p1".to_owned() };
    let page: String = (0..100).map(|n| format!("thing {n} goes\n")).collect();
    state.show_plan(PaneText::of_page(&page), TopMode::Confirm(consent.clone()));
    state.note_plan_drawn(ago(1));
    // A preview that could not be joined, a talk that was read, rows that change: each has a place of its own.
    state.pane_text = PaneText::of_sentence("This is the terminal that you look at.");
    state.pane = PaneKind::Talk;
    state.apply_rows(some_rows(), NOW);
    let shown = text_of(&draw(&state, PLAIN));
    assert!(shown.contains("thing 0 goes") && !shown.contains("This is the terminal"), "{shown}");
    assert!(shown.contains("─ clean up ─") && !shown.contains("talk ·"), "{shown}");
    assert!(shown.trim_end().ends_with("any other key does nothing"), "over the filter: {shown}");
    // All of it can be read before it is answered, and the list does not move meanwhile.
    let before = selected(&state);
    assert!(press(&mut state, b"G", NOW).is_empty());
    press(&mut state, b"\x1b[<65;10;5M", NOW);
    assert!(text_of(&draw(&state, PLAIN)).contains("thing 99 goes"));
    assert_eq!(selected(&state), before);
    assert_eq!(press(&mut state, b"y", NOW), [TopAction::Consent(consent)]);
}

#[test]
fn modes_are_named_below_whatever_is_filtered_and_seen_at_60x15() {
    let parser = SessionName::new("claude-code", "parser-rewrite");
    for (columns, rows) in [(60, 15), (120, 40)] {
        let mut state = state_of(columns, rows, some_rows());
        press(&mut state, b"/parser\r", NOW);
        state.select(TopSelection::Session(parser.clone()), NOW);
        press(&mut state, b"rgo on", NOW);
        let shown = text_of(&draw(&state, PLAIN));
        assert!(shown.contains("Enter sends") && shown.contains("go on"), "{shown}");
        press(&mut state, b"\x1b", NOW);
        let shown = text_of(&draw(&state, PLAIN));
        assert!(shown.contains("/parser") && !shown.contains("Enter sends"), "{shown}");
    }
}

#[test]
fn row_13_enter_twice_sends_one_reply() {
    let mut state = state_of(120, 40, some_rows());
    let parser = SessionName::new("claude-code", "parser-rewrite");
    state.select(TopSelection::Session(parser), NOW);
    assert_eq!(press(&mut state, b"rgo on\r", NOW).len(), 1);
    // The draft stays until there is a receipt, so that Enter may be pressed again.
    assert_eq!(press(&mut state, b"r\r", NOW), []);
    assert_eq!(state.message.as_deref(), Some("It is on its way already."));
    assert_eq!(press(&mut state, b"r!\r", NOW).len(), 1, "another text is another prompt");
}

#[test]
fn a_paste_is_whole_or_refused_wherever_it_goes() {
    let mut state = state_of(120, 40, some_rows());
    let parser = SessionName::new("claude-code", "parser-rewrite");
    state.select(TopSelection::Session(parser.clone()), NOW);
    press(&mut state, b"r", NOW);
    let long = "x".repeat(super::draft::MAX_DRAFT_BYTES - 1);
    state.apply_input(TopInput::Paste(long.clone()), NOW);
    state.apply_input(TopInput::Paste("ab".to_owned()), NOW);
    assert_eq!(state.drafts[&parser].text().len(), long.len(), "half of it would be another text");
    assert!(state.message.as_deref().unwrap().contains("nothing of it was pasted"));
    let shown = text_of(&draw(&state, PLAIN));
    assert!(shown.contains("nothing of it was pasted"), "{shown}");
    state.mode = TopMode::List;
    press(&mut state, b"/", NOW);
    state.apply_input(TopInput::Paste("is:zombie".to_owned()), NOW);
    assert!(state.filter_error.is_some(), "as if it was typed");
}

#[test]
fn row_17_a_filter_that_is_wrong_is_marked_where_it_is() {
    let mut state = state_of(120, 40, some_rows());
    assert_eq!(press(&mut state, b"/parser", NOW).len(), 6, "as it is typed");
    assert_eq!(state.filter_error, None);
    press(&mut state, b" is:zombie", NOW);
    let (_, place) = state.filter_error.clone().unwrap();
    assert_eq!(&state.filter.text()[place], "zombie");
    let buffer = draw(&state, PLAIN);
    let footer = buffer.area.height - 1;
    let marked: String = (0..buffer.area.width)
        .filter(|x| buffer[(*x, footer)].modifier.contains(Modifier::UNDERLINED))
        .map(|x| buffer[(x, footer)].symbol().to_owned())
        .collect();
    assert!(marked.contains("zombie") && !marked.contains("is:"), "{marked}");
    press(&mut state, b"\x1b", NOW);
    assert!(state.filter.is_empty() && state.filter_error.is_none());
}

#[test]
fn row_18_a_click_selects_a_second_one_opens_and_the_wheel_scrolls() {
    let mut state = state_of(120, 40, some_rows());
    let click = |row: u16| format!("\x1b[<0;10;{row}M").into_bytes();
    // Line 1 is the heading; the second session begins at line 4.
    press(&mut state, &click(5), NOW);
    assert_eq!(selected(&state), "gateway-auth");
    let opened = press(&mut state, &click(5), NOW);
    assert_eq!(opened, [TopAction::Attach { terminal: "T-gateway-auth".to_owned() }]);
    press(&mut state, b"\x1b[<65;10;5M", NOW);
    assert_eq!(selected(&state), "load-test");
    assert_eq!(press(&mut state, b"m", NOW), [TopAction::SetMouse(false)]);
}

#[test]
fn row_18_a_drag_in_the_preview_marks_and_copies_what_is_drawn() {
    let mut state = state_of(120, 40, some_rows());
    state.pane_text = PaneText::of_page("agent\n  It happens twice: 漢字 in two columns");
    let inside = super::layout::preview_inside(&state.layout()).unwrap();
    let at = |x: u16, y: u16| (inside.x + x + 1, inside.y + y + 1);
    let mouse = |button: u8, (x, y): (u16, u16), end: char| {
        format!("\x1b[<{button};{x};{y}{end}").into_bytes()
    };
    press(&mut state, &mouse(0, at(1, 0), 'M'), NOW);
    press(&mut state, &mouse(32, at(25, 1), 'M'), NOW);
    let drawn = draw(&state, PLAIN);
    let marked = drawn.content().iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert!(
        marked.count() > usize::from(inside.width),
        "the rest of a line and a part of the next"
    );
    let actions = press(&mut state, &mouse(0, at(25, 1), 'm'), NOW);
    let [TopAction::CopyDrawn(drag)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(drag.text_in(&drawn), "agent\n   It happens twice: 漢字");
    // However far it goes, nothing of the list is taken; a click alone copies nothing.
    press(&mut state, &mouse(0, at(4, 1), 'M'), NOW);
    press(&mut state, &mouse(32, (1, 1), 'M'), NOW);
    let actions = press(&mut state, &mouse(0, (1, 1), 'm'), NOW);
    let [TopAction::CopyDrawn(drag)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(drag.text_in(&draw(&state, PLAIN)), " agent\n   It");
    press(&mut state, &mouse(0, at(4, 1), 'M'), NOW);
    assert_eq!(press(&mut state, &mouse(0, at(4, 1), 'm'), NOW), []);
}

#[test]
fn row_25_nothing_that_a_title_holds_reaches_the_terminal() {
    let hostile = [
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}c",
        "\u{202e}txt.exe\u{2066}",
        "\u{9b}31m\u{0}\u{8}\u{7f}",
        "a\u{300}\u{301}\u{302}".repeat(2000).as_str(),
        "👩‍👩‍👧‍👦漢字\u{200b}\u{feff}",
        "x".repeat(1 << 20).as_str(),
        "line\nbreak\r\ttab",
    ]
    .map(str::to_owned);
    for (columns, rows) in [(60, 15), (80, 24), (120, 40)] {
        let mut all = some_rows();
        for (row, text) in all.iter_mut().zip(&hostile) {
            row.label = harmless(text);
            row.doing = harmless(text);
            row.project = harmless(text);
            row.branch = harmless(text);
            assert!(row.doing.len() < 20_000);
        }
        let state = state_of(columns, rows, all);
        let buffer = draw(&state, PLAIN);
        let bad = |letter: char| {
            letter.is_control()
                || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for cell in buffer.content() {
            assert!(!cell.symbol().chars().any(bad), "{:?}", cell.symbol());
        }
    }
}

#[test]
fn row_29_every_key_is_in_the_help_at_every_size() {
    for (columns, rows) in [(60, 15), (80, 24), (120, 40), (200, 50)] {
        let mut state = state_of(columns, rows, some_rows());
        press(&mut state, b"?", NOW);
        let mut shown = text_of(&draw(&state, PLAIN));
        for _ in 0..10 {
            press(&mut state, b"j", NOW);
            if state.mode != TopMode::Help {
                break;
            }
            shown.push_str(&text_of(&draw(&state, PLAIN)));
        }
        for binding in super::keys::KEY_TABLE {
            let words: String = binding.does.chars().take(16).collect();
            assert!(shown.contains(&words), "{columns}x{rows}: {words}: {shown}");
            // Where two columns have room for words, none of them is cut.
            let is_whole = columns < 80 || shown.contains(binding.does);
            assert!(is_whole, "{columns}x{rows}: {}: {shown}", binding.does);
            assert!(shown.contains(binding.keys[0]), "{columns}x{rows}: {}", binding.name);
        }
        press(&mut state, b"x", NOW);
        assert_eq!(state.mode, TopMode::List);
    }
}

#[test]
fn the_facts_of_a_session_are_read_as_easily_as_its_evidence() {
    let page = "           id  abc\n        agent  claude-code\n  transcript  /a\n";
    let pane = PaneText::of_facts(page);
    assert!(pane.lines.iter().all(|(tone, _)| *tone == PaneTone::Plain), "{pane:?}");
}

#[test]
fn row_23_the_only_timer_is_the_next_age_that_changes() {
    let rows = vec![row("a", Activity::Idle, 61, "x"), row("b", Activity::Idle, 7210, "x")];
    assert_eq!(next_age_change(&rows, NOW), Some(NOW.plus(Duration::from_secs(59))));
    assert_eq!(next_age_change(&rows[1..], NOW), Some(NOW.plus(Duration::from_secs(3590))));
    assert_eq!(next_age_change(&[], NOW), None);
}

#[test]
fn done_is_until_somebody_has_looked_and_gone_on() {
    let mut state = state_of(120, 40, some_rows());
    let done = SessionName::new("claude-code", "done-flaky");
    assert_eq!(state.count_group(AttentionGroup::Done), 1);
    state.select(TopSelection::Session(done), NOW);
    assert_eq!(state.count_group(AttentionGroup::Done), 1, "not under somebody's eyes");
    let left = press(&mut state, b"j", NOW);
    assert!(left.contains(&TopAction::Rebuild));
}

#[test]
fn by_project_what_needs_somebody_stays_above_all() {
    let mut rows = some_rows();
    rows[3].project = "aaa".to_owned();
    let mut state = state_of(120, 40, rows);
    press(&mut state, b"o", NOW);
    let page = text_of(&draw(&state, PLAIN));
    let place = |word: &str| page.find(word).unwrap();
    assert!(place("NEEDS YOU") < place("AAA") && place("AAA") < place("API"), "{page}");
    assert!(state.pane == PaneKind::Screen);
}

#[test]
fn events_tell_what_changed_since_the_start() {
    let mut state = state_of(120, 40, some_rows());
    let mut rows = some_rows();
    rows[3] = row("parser-rewrite", Activity::Waiting, 1, "Allow Edit");
    state.apply_rows(rows, NOW);
    assert_eq!(state.events, [(NOW, "parser-rewrite needs you: Allow Edit".to_owned())]);
    let input = TopInput::Paste("x".to_owned());
    assert!(state.apply_input(input, NOW).is_empty(), "a paste into the list does nothing");
}
