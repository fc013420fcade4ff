//! The lengths an ONNX file states stay within what contains them.
//!
//! An ONNX file is a Protocol Buffers message (`ModelProto` of `onnx.proto3`): messages in messages, each behind its
//! length. `rten` makes room for a length before it looks whether so many bytes are there, follows messages to any depth and
//! reads a number of more than ten bytes without end; no room and no stack left end the process. So all of it is looked at first.

/// Deeper than any network: a field in a tensor of an attribute of a node is at depth 5; each branch of a condition adds 3.
const MAX_DEPTH: usize = 32;

/// The messages of `onnx.proto3` that contain others, by what they contain.
#[derive(Debug, Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
    Type,
    TensorType,
    SequenceType,
    Shape,
    /// Numbers and texts only.
    Plain,
    /// Numbers one behind the other.
    Packed,
}

impl Message {
    /// The message in field `number`; `None` for numbers, texts and fields that `rten` skips.
    fn field(self, number: u64) -> Option<Self> {
        match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6) => Some(Self::Graph),
            (Self::Graph, 1) => Some(Self::Node),
            (Self::Graph, 5) | (Self::Attribute, 5) => Some(Self::Tensor),
            (Self::Graph, 11..=13) => Some(Self::ValueInfo),
            (Self::Node, 5) => Some(Self::Attribute),
            (Self::ValueInfo, 2) | (Self::SequenceType, 1) => Some(Self::Type),
            (Self::Type, 1) => Some(Self::TensorType),
            (Self::Type, 4) => Some(Self::SequenceType),
            (Self::TensorType, 2) => Some(Self::Shape),
            (Self::Tensor, 5 | 7) => Some(Self::Packed),
            (Self::Model, 8 | 14) | (Self::Tensor, 13) | (Self::Shape, 1) => Some(Self::Plain),
            _ => None,
        }
    }
}

/// Why `onnx` is no message whose parts lie within it.
pub(crate) fn check_nesting(onnx: &[u8]) -> Result<(), String> {
    check(onnx, Message::Model, 0)
}

fn check(message: &[u8], kind: Message, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("messages are nested deeper than {MAX_DEPTH}"));
    }
    let mut rest = Rest(message);
    if let Message::Packed = kind {
        while !rest.0.is_empty() {
            rest.varint()?;
        }
    }
    while !rest.0.is_empty() {
        let tag = rest.varint()?;
        match (tag >> 3, tag & 7) {
            (_, 0) => drop(rest.varint()?),
            (_, 1) => drop(rest.take(8)?),
            (_, 5) => drop(rest.take(4)?),
            (number, 2) => {
                let len = rest.varint()?;
                let part = rest.take(len)?;
                if let Some(kind) = kind.field(number) {
                    check(part, kind, depth + 1)?;
                }
            }
            (number, wire) => return Err(format!("field {number} is of the unknown wire type {wire}")),
        }
    }
    Ok(())
}

/// What is not read yet of a message.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], String> {
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let (part, rest) = split.ok_or_else(|| format!("a part of {len} bytes where {} are left", self.0.len()))?;
        self.0 = rest;
        Ok(part)
    }

    /// Seven bits a byte, the lowest first; the highest bit says that another follows.
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than ten bytes".into())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, check_nesting};

    const ONNX: &[u8] = include_bytes!("../tests/data/tiny_mean.onnx");

    /// `part` as field `number` of a message; shorter than 128 bytes.
    fn message(number: u8, part: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(part.len()).unwrap()], part].concat()
    }

    #[test]
    fn whole_file_passes_and_no_part_of_it_does() {
        assert_eq!(check_nesting(ONNX), Ok(()));
        let passing = (1..ONNX.len()).filter(|&len| check_nesting(&ONNX[..len]).is_ok());
        // A file may end after any field of the outermost message.
        assert!(passing.count() < 10);
    }

    #[test]
    fn length_beyond_its_message_is_refused_though_the_file_is_longer() {
        // A graph (field 7 of the model) of a node (field 1) whose name (field 3) is said to have 9 bytes of the 2 left.
        let name = [3 << 3 | 2, 9, b'a', b'b'];
        let file = [message(7, &message(1, &name)), vec![0; 32]].concat();
        assert_eq!(check_nesting(&file), Err("a part of 9 bytes where 2 are left".into()));
        let name = [3 << 3 | 2, 2, b'a', b'b'];
        assert_eq!(check_nesting(&message(7, &message(1, &name))), Ok(()));
    }

    #[test]
    fn length_of_80_tebibytes_is_refused() {
        let len = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x14];
        let file = [&[2 << 3 | 2][..], &len, b"gpara"].concat();
        assert_eq!(check_nesting(&file), Err("a part of 87960930222080 bytes where 5 are left".into()));
    }

    #[test]
    fn messages_in_each_other_without_end_are_refused() {
        // A sequence (field 4 of a type) of a type (field 1 of a sequence) of a sequence and so on.
        let nested = |depth| (0..depth).fold(Vec::new(), |inner, at| message(if at % 2 == 0 { 1 } else { 4 }, &inner));
        let file = |depth| message(7, &message(11, &message(2, &nested(depth))));
        assert_eq!(check_nesting(&file(28)), Ok(()));
        assert_eq!(check_nesting(&file(40)), Err(format!("messages are nested deeper than {MAX_DEPTH}")));
    }

    #[test]
    fn packed_number_without_end_is_refused() {
        // An initializer (field 5 of the graph) with int64_data (field 7).
        let file = |numbers: &[u8]| message(7, &message(5, &message(7, numbers)));
        assert_eq!(check_nesting(&file(&[1, 0x80, 1, 2])), Ok(()));
        assert_eq!(check_nesting(&file(&[0xff; 11])), Err("a number of more than ten bytes".into()));
        assert_eq!(check_nesting(&file(&[1, 0x80])), Err("a part of 1 bytes where 0 are left".into()));
    }

    #[test]
    fn number_without_end_and_group_are_refused() {
        assert_eq!(check_nesting(&[0xff; 12]), Err("a number of more than ten bytes".into()));
        assert_eq!(check_nesting(&[1 << 3 | 3]), Err("field 1 is of the unknown wire type 3".into()));
    }
}
