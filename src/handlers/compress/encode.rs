//! The three encoders behind one door. All of a file at once: its size is known and bounded, and an
//! encoder that knows the size takes no larger window than it needs.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;

use crate::limits::FILE_CHUNK_BYTES;
use crate::semantics::encoding::Coding;

/// log2 of the largest window: RFC 9659 §3 bounds it to 8 MiB for zstd, RFC 7932 §9.1 to 16 MiB for br.
const BROTLI_WINDOW_BITS: i32 = 22;
const ZSTD_WINDOW_BITS: u32 = 23;

/// `content` in `coding`.
///
/// # Errors
/// The encoder refuses its parameters or has no memory.
pub(super) fn encode(coding: Coding, level: u8, content: &[u8]) -> io::Result<Vec<u8>> {
    // Text shrinks to a quarter; a buffer that has to grow is copied.
    let mut out = Vec::with_capacity(content.len() / 4);
    match coding {
        Coding::Br => {
            let params = BrotliEncoderParams {
                quality: i32::from(level),
                lgwin: BROTLI_WINDOW_BITS,
                size_hint: content.len(),
                ..BrotliEncoderParams::default()
            };
            let mut encoder = brotli::CompressorWriter::with_params(&mut out, FILE_CHUNK_BYTES, &params);
            encoder.write_all(content)?;
            encoder.flush()?;
            drop(encoder);
        }
        Coding::Zstd => {
            let mut encoder = zstd::Encoder::new(&mut out, i32::from(level))?;
            encoder.set_pledged_src_size(Some(content.len() as u64))?;
            encoder.window_log(ZSTD_WINDOW_BITS.min(window_bits(content.len())))?;
            encoder.write_all(content)?;
            encoder.finish()?;
        }
        Coding::Gzip => {
            let level = flate2::Compression::new(u32::from(level));
            // No time and no name in it: the same file gives the same bytes.
            let mut encoder = flate2::write::GzEncoder::new(&mut out, level);
            encoder.write_all(content)?;
            encoder.finish()?;
        }
    }
    Ok(out)
}

/// The window that holds all of so many bytes; zstd takes none below 2^10.
fn window_bits(bytes: usize) -> u32 {
    (usize::BITS - bytes.leading_zeros()).max(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match coding {
            Coding::Br => brotli::Decompressor::new(coded, 4096).read_to_end(&mut content).unwrap(),
            Coding::Zstd => zstd::Decoder::new(coded).unwrap().read_to_end(&mut content).unwrap(),
            Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut content).unwrap(),
        };
        content
    }

    #[test]
    fn what_is_encoded_is_decoded_at_every_level() {
        let text: Vec<u8> = (0..2_000).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        let levels = [(Coding::Br, 0..=9), (Coding::Zstd, 1..=19), (Coding::Gzip, 1..=9)];
        for (coding, levels) in levels {
            for level in levels {
                let coded = encode(coding, level, &text).unwrap();
                assert!(coded.len() < text.len() / 2, "{coding:?} {level}: {}", coded.len());
                assert!(decode(coding, &coded) == text, "{coding:?} {level}");
                assert_eq!(coded, encode(coding, level, &text).unwrap(), "the same bytes each time");
            }
            assert_eq!(decode(coding, &encode(coding, 1, b"x").unwrap()), b"x");
            assert_eq!(decode(coding, &encode(coding, 1, b"").unwrap()), b"");
        }
    }

    /// RFC 9659: a browser may refuse a larger window. RFC 8878 §3.1.1.1.2: exponent and mantissa.
    #[test]
    fn the_window_of_zstd_is_at_most_8_mib() {
        let content = vec![b'a'; 9 << 20];
        let coded = encode(Coding::Zstd, 19, &content).unwrap();
        let is_single_segment = coded[4] & 0x20 != 0;
        let window = 1_u64 << (10 + (coded[5] >> 3));
        assert!(!is_single_segment && window <= 8 << 20, "{window}");
    }
}
