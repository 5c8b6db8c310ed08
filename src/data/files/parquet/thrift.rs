//! Thrift's compact protocol, in which a Parquet file describes its content. The bytes are walked before anything is made of them,
//! so that no claim in them is trusted unchecked. Takes bytes, reports the numbers in them.

/// Structures and lists nested in one another at most.
const MAX_DEPTH: usize = 16;

/// Item that a walk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// An integer, or a truth value as 0 or 1.
    Number(i64),
    /// The end of a structure.
    End,
}

/// A walk over one structure. An item is reported with the path of field numbers that lead to it; items of a list with the path of
/// the list.
pub(super) struct Walk<'a, F> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<i16>,
    depth: usize,
    tell: F,
}

/// Type codes of values.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
}

impl<'a, F: FnMut(&[i16], Met)> Walk<'a, F> {
    /// Walks over the structure at the start of `bytes`; returns its length in bytes, none if it does not end within `bytes` or is
    /// no valid structure.
    pub(super) fn over(bytes: &'a [u8], tell: F) -> Option<usize> {
        let mut walk = Self {
            bytes,
            at: 0,
            path: Vec::new(),
            depth: 0,
            tell,
        };
        walk.structure()?;
        Some(walk.at)
    }

    fn structure(&mut self) -> Option<()> {
        let mut last = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                (self.tell)(&self.path, Met::End);
                return Some(());
            }
            last = match head >> 4 {
                0 => i16::try_from(self.integer()?).ok()?,
                step => last.checked_add(i16::from(step))?,
            };
            self.path.push(last);
            match head & 15 {
                kind::TRUE => (self.tell)(&self.path, Met::Number(1)),
                kind::FALSE => (self.tell)(&self.path, Met::Number(0)),
                kind => self.value(kind)?,
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        match kind {
            // A truth value in a list takes a byte; the crate that reads after this walk takes it for none, and would read all that
            // follows as something else. No structure of a footer or a page has such a list.
            kind::TRUE | kind::FALSE => return None,
            kind::BYTE => self.skip(1)?,
            kind::I16..=kind::I64 => {
                let number = self.integer()?;
                (self.tell)(&self.path, Met::Number(number));
            }
            kind::DOUBLE => self.skip(8)?,
            kind::BINARY => {
                let length = self.size()?;
                self.skip(length)?;
            }
            kind::LIST | kind::SET => {
                let head = self.byte()?;
                let size = match head >> 4 {
                    15 => self.size()?,
                    size => usize::from(size),
                };
                for _ in 0..size {
                    self.value(head & 15)?;
                }
            }
            kind::MAP => {
                let size = self.size()?;
                let kinds = if size > 0 { self.byte()? } else { 0 };
                for _ in 0..size {
                    self.value(kinds >> 4)?;
                    self.value(kinds & 15)?;
                }
            }
            kind::STRUCT => self.structure()?,
            _ => return None,
        }
        self.depth -= 1;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn size(&mut self) -> Option<usize> {
        let size = usize::try_from(self.unsigned()?).ok()?;
        (size <= self.bytes.len()).then_some(size)
    }

    fn integer(&mut self) -> Option<i64> {
        let bits = self.unsigned()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (number, length) = unsigned(&self.bytes[self.at..])?;
        self.at += length;
        Some(number)
    }
}

/// A variable-length number of seven bits a byte, the lowest first, and its length in bytes; none if it does not end.
pub(super) fn unsigned(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 127) << (7 * at);
        if byte & 128 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{1: -3, 2: true, 4: [{1: 300}, {}], 5: "ab"}`.
    const BYTES: [u8; 16] = [
        0x15, 0x05, 0x11, 0x29, 0x2c, 0x15, 0xd8, 0x04, 0x00, 0x00, 0x18, 0x02, b'a', b'b', 0x00,
        0xff,
    ];

    #[test]
    fn a_walk_tells_of_every_number_and_where_structures_end() {
        let mut met = Vec::new();
        let length = Walk::over(&BYTES, |path, what| met.push((path.to_vec(), what)));
        assert_eq!(length, Some(15));
        assert_eq!(
            met,
            [
                (vec![1], Met::Number(-3)),
                (vec![2], Met::Number(1)),
                (vec![4, 1], Met::Number(300)),
                (vec![4], Met::End),
                (vec![4], Met::End),
                (vec![], Met::End),
            ]
        );
    }

    #[test]
    fn what_is_cut_short_nested_too_deep_or_of_another_kind_is_no_structure() {
        for length in 0..15 {
            assert_eq!(Walk::over(&BYTES[..length], |_, _| ()), None, "{length}");
        }
        assert_eq!(Walk::over(&[0x1c; 4096], |_, _| ()), None);
        assert_eq!(Walk::over(&[0x19; 4096], |_, _| ()), None);
        assert_eq!(Walk::over(&[0x1e, 0, 0], |_, _| ()), None);
        // A list of truth values, which others read otherwise.
        assert_eq!(Walk::over(&[0x19, 0x21, 1, 1, 0], |_, _| ()), None);
        let endless = [0x19, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(Walk::over(&endless, |_, _| ()), None);
    }
}
