//! Numbers as they are written, and compared.

/// A number with its thousands parted.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Sizes with `x` between them.
pub(super) fn joined(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| grouped(*size)).collect();
    sizes.join(" x ")
}

/// Within 2 %.
pub(super) fn close(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / 50
}
