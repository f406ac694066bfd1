//! Exact resource quantities: the whole grammar of Kubernetes, whole nano units, no rounding in sums.
//!
//! A quantity is a whole number of nano units (10⁻⁹) and the notation it is printed in. What is finer is rounded away
//! from zero when it is read, and what is beyond 2⁶³-1 units is cut there, as Kubernetes does it (`apimachinery`,
//! `pkg/api/resource/quantity.go`: `ParseQuantity`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nano units in one unit.
const NANO: i128 = 1_000_000_000;

/// The largest amount, in nano units.
const MAX: i128 = i64::MAX as i128 * NANO;

/// A resource quantity. Two are equal if their amounts are, however they are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How a quantity is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// Powers of 1000 by letter: `1500m`, `2G`.
    #[default]
    Decimal,
    /// Powers of 1024: `512Mi`.
    Binary,
    /// Powers of 1000 by number: `2e9`.
    Exponent,
}

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is empty, or its number is followed by something that is no suffix.
    #[error("a quantity is a number with an optional suffix such as m, k, M, Gi or e3")]
    Format,
    /// The suffix is unknown.
    #[error("unknown suffix of a quantity")]
    Suffix,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        notation: Notation::Decimal,
    };

    /// `units` whole units, printed in decimal.
    #[must_use]
    pub const fn units(units: i64) -> Self {
        Self {
            nanos: units as i128 * NANO,
            notation: Notation::Decimal,
        }
    }

    /// `milli` thousandths of a unit, printed in decimal.
    #[must_use]
    pub const fn milli(milli: i64) -> Self {
        Self {
            nanos: milli as i128 * (NANO / 1000),
            notation: Notation::Decimal,
        }
    }

    /// `mebi` times 2²⁰ units, printed in binary.
    #[must_use]
    pub const fn mebi(mebi: i32) -> Self {
        Self {
            nanos: mebi as i128 * (NANO << 20),
            notation: Notation::Binary,
        }
    }

    /// The same amount in another notation.
    #[must_use]
    pub const fn in_notation_of(self, other: Self) -> Self {
        Self {
            notation: other.notation,
            ..self
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whole units, rounded away from zero.
    #[must_use]
    pub fn value(self) -> i64 {
        self.scaled(NANO)
    }

    /// Thousandths of a unit, rounded away from zero.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// Thousands of units, rounded away from zero.
    #[must_use]
    pub fn kilo_value(self) -> i64 {
        self.scaled(NANO * 1000)
    }

    fn scaled(self, unit: i128) -> i64 {
        // Only milli can be beyond i64, and such an amount of CPU is beyond every machine.
        i64::try_from(div_away(self.nanos, unit)).unwrap_or(if self.nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// The sum. It is cut at the largest amount; nothing takes the notation of the other, as in Kubernetes.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self {
            nanos: (self.nanos + other.nanos).clamp(-MAX, MAX),
            notation,
        }
    }

    /// The difference, by the rules of [`Self::plus`].
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self {
            nanos: -other.nanos,
            ..other
        })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

fn div_away(amount: i128, unit: i128) -> i128 {
    let up = i128::from(amount % unit != 0);
    amount / unit + up * amount.signum()
}

/// The factor of a suffix: a power of ten, or of two.
#[derive(Clone, Copy)]
enum Factor {
    Ten(i64),
    Two(u32),
}

fn factor(suffix: &str) -> Result<(Factor, Notation), ParseError> {
    let ten = |power| Ok((Factor::Ten(power), Notation::Decimal));
    let two = |power| Ok((Factor::Two(power), Notation::Binary));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E']).ok_or(ParseError::Suffix)?;
            let power: i64 = power.parse().map_err(|_| ParseError::Suffix)?;
            Ok((Factor::Ten(power), Notation::Exponent))
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        check_suffix(suffix)?;
        let (factor, notation) = factor(suffix)?;
        let nanos = nanos(whole, fraction, factor);
        let notation = match notation {
            // Below one, powers of 1024 would not print.
            Notation::Binary if nanos < NANO && nanos != 0 => Notation::Decimal,
            notation => notation,
        };
        Ok(Self {
            nanos: if text.starts_with('-') { -nanos } else { nanos },
            notation,
        })
    }
}

/// A suffix is a run of the letters that occur in one, then an optional sign and digits.
fn check_suffix(suffix: &str) -> Result<(), ParseError> {
    let rest = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(())
    } else {
        Err(ParseError::Format)
    }
}

/// `whole.fraction` times `factor`, in nano units: rounded up, cut at [`MAX`].
fn nanos(whole: &str, fraction: &str, factor: Factor) -> i128 {
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|digit| digit - b'0')
        .collect();
    let mut power = match factor {
        Factor::Ten(power) => power,
        Factor::Two(power) => {
            shift(&mut digits, power);
            0
        }
    };
    // The digits count nano units once their last one stands at 10⁻⁹.
    power = power.saturating_add(9).saturating_sub(len(fraction.len()));
    let dropped = usize::try_from(power.saturating_neg()).unwrap_or(0).min(digits.len());
    let (kept, dropped) = digits.split_at(digits.len() - dropped);
    let mut amount: i128 = 0;
    for &digit in kept {
        amount = amount * 10 + i128::from(digit);
        if amount > MAX {
            return MAX;
        }
    }
    if dropped.iter().any(|&digit| digit != 0) {
        amount += 1;
    }
    while amount != 0 && amount <= MAX && power > 0 {
        amount *= 10;
        power -= 1;
    }
    amount.min(MAX)
}

fn len(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Multiplies a decimal number by a power of two.
fn shift(digits: &mut Vec<u8>, power: u32) {
    let mut carry: u128 = 0;
    for digit in digits.iter_mut().rev() {
        carry += u128::from(*digit) << power;
        *digit = last_digit(carry);
        carry /= 10;
    }
    let mut front = Vec::new();
    while carry != 0 {
        front.push(last_digit(carry));
        carry /= 10;
    }
    digits.splice(0..0, front.into_iter().rev());
}

fn last_digit(number: u128) -> u8 {
    u8::try_from(number % 10).unwrap_or_default()
}

/// Kubernetes' canonical form: no fraction, the largest suffix that needs none (`quantity.go`: `CanonicalizeBytes`).
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const THOUSANDS: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const KIBI: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let strip = |mut amount: i128, by: i128, most: usize| {
            let mut times = 0;
            while times < most && amount != 0 && amount % by == 0 {
                amount /= by;
                times += 1;
            }
            (amount, times)
        };
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.notation == Notation::Binary && self.nanos.abs() >= 1024 * NANO {
            let (amount, times) = strip(div_away(self.nanos, NANO), 1024, KIBI.len() - 1);
            return write!(f, "{amount}{}", KIBI[times]);
        }
        let (amount, times) = strip(self.nanos, 1000, THOUSANDS.len() - 1);
        match (self.notation, times) {
            (Notation::Exponent, 3) => write!(f, "{amount}"),
            (Notation::Exponent, times) => write!(f, "{amount}e{}", 3 * len(times) - 9),
            (Notation::Decimal | Notation::Binary, times) => write!(f, "{amount}{}", THOUSANDS[times]),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From text, or from a bare number, which Kubernetes accepts too.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse()
                    .map_err(|error| E::custom(format_args!("{text:?}: {error}")))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::units(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::units(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
