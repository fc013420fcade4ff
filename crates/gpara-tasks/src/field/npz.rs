//! NumPy's `.npz`: a ZIP archive of `.npy` members, of which one is the field.

use std::io::Read;
use std::path::Path;

use flate2::read::DeflateDecoder;
use gpara::Result;

use super::error::FieldError;
use super::limits::{MAX_FILE_BYTES, check_expansion};
use super::npy;
use super::raster::Field;

/// Decodes the array named `array`, or the only one.
pub(super) fn decode(bytes: &[u8], path: &Path, array: Option<&str>) -> Result<Field> {
    let members = members(bytes).ok_or_else(|| FieldError::content(path, "not a readable ZIP archive"))?;
    let arrays: Vec<(&str, &Member)> =
        members.iter().filter_map(|member| member.name.strip_suffix(".npy").map(|name| (name, member))).collect();
    let names = || arrays.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let member = match (array, arrays.as_slice()) {
        (None, [(_, member)]) => member,
        (None, _) => {
            let reason = format!("it holds {} arrays ({}), one must be named", arrays.len(), names());
            return Err(FieldError::content(path, reason).into());
        }
        (Some(wanted), _) => {
            let found = arrays.iter().find(|(name, _)| *name == wanted).map(|(_, member)| member);
            found
                .ok_or_else(|| FieldError::content(path, format!("no array `{wanted}`; its arrays are {}", names())))?
        }
    };
    npy::decode(&member.unpacked(bytes, path)?, path)
}

/// A file in the archive, as the central directory describes it.
struct Member {
    name: String,
    method: u16,
    compressed_size: u32,
    size: u32,
    local_header: u32,
}

const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The members of an archive; none if the bytes are no archive.
fn members(bytes: &[u8]) -> Option<Vec<Member>> {
    // The end record is the last thing but a comment of at most 65535 bytes.
    let earliest = bytes.len().saturating_sub(22 + usize::from(u16::MAX));
    let end = earliest + bytes[earliest..].windows(4).rposition(|window| window == END_OF_DIRECTORY)?;
    let count = u16_at(bytes, end + 10)?;
    let mut at = u32_at(bytes, end + 16)? as usize;
    let mut members = Vec::new();
    for _ in 0..count {
        if bytes.get(at..at + 4)? != DIRECTORY_ENTRY {
            return None;
        }
        let name_length = usize::from(u16_at(bytes, at + 28)?);
        let name = String::from_utf8_lossy(bytes.get(at + 46..at + 46 + name_length)?).into_owned();
        members.push(Member {
            name,
            method: u16_at(bytes, at + 10)?,
            compressed_size: u32_at(bytes, at + 20)?,
            size: u32_at(bytes, at + 24)?,
            local_header: u32_at(bytes, at + 42)?,
        });
        at += 46 + name_length + usize::from(u16_at(bytes, at + 30)?) + usize::from(u16_at(bytes, at + 32)?);
    }
    Some(members)
}

impl Member {
    /// The bytes of the member, unpacked.
    fn unpacked(&self, bytes: &[u8], path: &Path) -> Result<Vec<u8>> {
        let broken = |reason: &str| FieldError::content(path, format!("member `{}` {reason}", self.name));
        let packed = self.packed(bytes).ok_or_else(|| broken("lies outside the file"))?;
        match self.method {
            0 => Ok(packed.to_vec()),
            8 => {
                let size = u64::from(self.size).min(MAX_FILE_BYTES);
                check_expansion(path, size, packed.len())?;
                let mut unpacked = Vec::new();
                // One byte more than announced shows a member that goes on.
                let read = DeflateDecoder::new(packed).take(size + 1).read_to_end(&mut unpacked);
                if read.is_err() || unpacked.len() as u64 != size {
                    return Err(broken("does not unpack to its announced size").into());
                }
                Ok(unpacked)
            }
            method => Err(broken(&format!("is packed with method {method}, allowed are 0 and 8 (deflate)")).into()),
        }
    }

    fn packed<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let header = self.local_header as usize;
        if bytes.get(header..header.checked_add(4)?)? != LOCAL_HEADER {
            return None;
        }
        let skipped = usize::from(u16_at(bytes, header + 26)?) + usize::from(u16_at(bytes, header + 28)?);
        let start = header + 30 + skipped;
        bytes.get(start..start.checked_add(self.compressed_size as usize)?)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod test_archive {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    /// An archive of (name, content) members, stored or deflated.
    pub(in crate::field) fn zip(members: &[(&str, &[u8])], deflate: bool) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in members {
            let packed = if deflate {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            } else {
                content.to_vec()
            };
            let local_header = file.len() as u32;
            let method = if deflate { 8_u16 } else { 0 };
            let mut common = [20_u16.to_le_bytes(), [0; 2], method.to_le_bytes(), [0; 2], [0; 2]].concat();
            common.extend([0; 4]);
            common.extend((packed.len() as u32).to_le_bytes());
            common.extend((content.len() as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            common.extend([0; 2]);
            file.extend([b"PK\x03\x04".as_slice(), &common, name.as_bytes(), &packed].concat());
            directory.extend([b"PK\x01\x02\x14\x00".as_slice(), &common, &[0; 10]].concat());
            directory.extend(local_header.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let (start, count) = (file.len() as u32, members.len() as u16);
        file.extend(&directory);
        file.extend([b"PK\x05\x06\0\0\0\0".as_slice(), &count.to_le_bytes(), &count.to_le_bytes()].concat());
        file.extend((directory.len() as u32).to_le_bytes());
        file.extend(start.to_le_bytes());
        file.extend([0; 2]);
        file
    }
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, Grid};

    use super::test_archive::zip;
    use super::*;

    fn array(values: [f64; 2]) -> Vec<u8> {
        npy::encode(Path::new("a.npy"), Grid::new(1, 2).unwrap(), &values).unwrap()
    }

    #[test]
    fn only_array_and_named_array_are_read_stored_or_deflated() {
        let path = Path::new("a.npz");
        for deflate in [false, true] {
            let one = zip(&[("depth.npy", &array([1.0, 2.0])), ("readme.txt", b"x")], deflate);
            assert_eq!(decode(&one, path, None).unwrap().values(), [1.0, 2.0]);
            let two = zip(&[("a.npy", &array([1.0, 2.0])), ("b.npy", &array([3.0, 4.0]))], deflate);
            assert_eq!(decode(&two, path, Some("b")).unwrap().values(), [3.0, 4.0]);
            let error = decode(&two, path, None).unwrap_err();
            assert!(error.to_string().contains("`a`, `b`"), "{error}");
            let error = decode(&two, path, Some("c")).unwrap_err();
            assert!(error.to_string().contains("no array `c`"), "{error}");
        }
    }

    #[test]
    fn member_that_unpacks_to_more_than_announced_is_refused() {
        let path = Path::new("a.npz");
        let mut file = zip(&[("a.npy", &vec![0; 1 << 20])], true);
        let end = file.len() - 22;
        let directory = u32_at(&file, end + 16).unwrap() as usize;
        for size in [10_u32, u32::MAX] {
            file[directory + 24..directory + 28].copy_from_slice(&size.to_le_bytes());
            assert_eq!(decode(&file, path, None).unwrap_err().kind(), ErrorKind::InvalidInput, "{size}");
        }
        assert_eq!(decode(b"", path, None).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
