//! A panic of the inference library, as an error.
//!
//! `rten` trusts the sizes a network file states: it multiplies them (a debug build panics where they overflow) and reads
//! arrays by them. A damaged or hostile file must end in an error of the caller's all the same.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The answer of `ask`, or why it panicked. What `ask` changes must not be looked at after an error.
pub(crate) fn caught<T>(ask: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| format!("the inference library panicked: {}", message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn panic_is_an_error_with_its_message_and_an_answer_is_kept() {
        assert_eq!(caught(|| 7), Ok(7));
        let literal = caught(|| -> i32 { panic!("size overflows") });
        assert_eq!(literal, Err("the inference library panicked: size overflows".into()));
        let size = 12;
        let formatted = caught(|| -> i32 { panic!("size {size} overflows") });
        assert_eq!(formatted, Err("the inference library panicked: size 12 overflows".into()));
    }
}
