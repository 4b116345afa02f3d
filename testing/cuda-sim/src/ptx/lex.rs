//! Words, numbers and punctuation of PTX text.
//!
//! A word keeps its dots and double colons (`ld.global.L2::128B.f32`, `%tid.x`, `.reg`), because that is how opcodes and special
//! registers are looked up. Only `.loc` and `.file` end with their line; everything else is free-form.

use super::PtxError;

/// A literal. Hexadecimal floats keep their bits; decimal ones get theirs from the instruction's type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Literal {
    Int(u64),
    Float32(u32),
    Float64(u64),
    Decimal(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(Literal),
    Text(&'a str),
    Mark(char),
}

/// A token and the line it stands on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) token: Token<'a>,
    pub(super) line: u32,
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

pub(super) fn lex(text: &str) -> Result<Vec<Spot<'_>>, PtxError> {
    let mut spots = Vec::new();
    let mut rest = text;
    let mut line = 1_u32;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            line = line.saturating_add(1);
        }
        if c.is_whitespace() || c == '\0' {
            rest = &rest[c.len_utf8()..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(after) = rest.strip_prefix("/*") {
            let end = after.find("*/").ok_or_else(|| PtxError::new(line, "a comment has no end"))?;
            line = line.saturating_add(lines_in(&after[..end]));
            rest = &after[end + 2..];
        } else if let Some(after) = rest.strip_prefix('"') {
            let end = after.find('"').ok_or_else(|| PtxError::new(line, "a string has no end"))?;
            spots.push(Spot { token: Token::Text(&after[..end]), line });
            line = line.saturating_add(lines_in(&after[..end]));
            rest = &after[end + 1..];
        } else if in_word(c) {
            let (word, after) = rest.split_at(word_length(rest));
            rest = after;
            if matches!(word, ".loc" | ".file") {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                let number =
                    number(word).ok_or_else(|| PtxError::new(line, format!("{word} is not a number")))?;
                spots.push(Spot { token: Token::Number(number), line });
            } else {
                spots.push(Spot { token: Token::Word(word), line });
            }
        } else if c.is_ascii_punctuation() {
            spots.push(Spot { token: Token::Mark(c), line });
            rest = &rest[1..];
        } else {
            return Err(PtxError::new(line, format!("{c:?} does not belong here")));
        }
    }
    Ok(spots)
}

fn lines_in(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

/// The end of the word at the start of `text`; `::` belongs to a word, a single colon ends a label.
fn word_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        match rest.chars().next() {
            Some(c) if in_word(c) => at += 1,
            Some(':') if rest.starts_with("::") => at += 2,
            _ => return at,
        }
    }
}

fn number(word: &str) -> Option<Literal> {
    if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
        return u32::from_str_radix(digits, 16).ok().map(Literal::Float32);
    }
    if let Some(digits) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
        return u64::from_str_radix(digits, 16).ok().map(Literal::Float64);
    }
    let (digits, radix) = if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        (digits, 16)
    } else if let Some(digits) = word.strip_prefix("0b").or_else(|| word.strip_prefix("0B")) {
        (digits, 2)
    } else if word.contains('.') {
        return word.parse().ok().map(Literal::Decimal);
    } else {
        (word, 10)
    };
    u64::from_str_radix(digits.trim_end_matches(['U', 'u']), radix).ok().map(Literal::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_dots_and_numbers_their_bits() {
        let spots = lex("ld.global.L2::128B.f32 %f1,[%rd2+-4]; L1: mov.f32 %f2, 0f3F800000; // tail\n.loc 1 2 3\n0x1F 12U 1.5").unwrap();
        let tokens: Vec<_> = spots.iter().map(|spot| spot.token).collect();
        assert_eq!(tokens[0], Token::Word("ld.global.L2::128B.f32"));
        assert_eq!(tokens[3], Token::Mark('['));
        assert!(tokens.windows(2).any(|pair| pair == [Token::Word("L1"), Token::Mark(':')]));
        assert!(tokens.contains(&Token::Number(Literal::Float32(0x3f80_0000))));
        assert_eq!(
            tokens[tokens.len() - 3..],
            [
                Token::Number(Literal::Int(31)),
                Token::Number(Literal::Int(12)),
                Token::Number(Literal::Decimal(1.5))
            ]
        );
        assert_eq!(spots.last().unwrap().line, 3);
    }
}
