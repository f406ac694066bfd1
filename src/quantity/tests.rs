use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn the_canonical_form_is_that_of_kubernetes() {
    for (given, printed) in [
        ("0", "0"),
        ("1Gi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("0.5Mi", "512Ki"),
        ("0.0001Ki", "102400u"),
        ("0.5Ki", "512"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("1e3", "1e3"),
        ("12E2", "1200"),
        ("1E", "1E"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("-1.5Gi", "-1536Mi"),
        ("+2k", "2k"),
        ("50M", "50M"),
        ("333.3333333333333m", "333333334n"),
        ("1e100", "9223372036854775807e0"),
        ("9Ei", "9223372036854775807"),
        ("1e-400", "1e-9"),
        ("-", "0"),
        (".", "0"),
        ("k", "0"),
        ("5.", "5"),
    ] {
        let shown = read(given).to_string();
        // The largest amount has no factor of 1000, so no exponent either.
        assert_eq!(shown, printed.trim_end_matches("e0"), "{given}");
    }
}

#[test]
fn what_is_no_quantity_is_refused() {
    for wrong in [
        "", "1 Gi", "1gi", "1Gib", "abc", "1.2.3", "1e", "1e3k", "1K", "0x10", "1e1.5", "--1", "é",
    ] {
        assert!(wrong.parse::<Quantity>().is_err(), "{wrong}");
    }
}

#[test]
fn sums_are_exact_and_nothing_takes_the_other_notation() {
    assert_eq!(read("1320Mi").plus(read("35M")).to_string(), "1419120320");
    assert_eq!(Quantity::ZERO.plus(read("1Gi")).to_string(), "1Gi");
    assert_eq!(read("333333334n").plus(read("5m")).milli_value(), 339);
    assert_eq!(read("9E").plus(read("9E")), read("18E"));
    assert!(read("1000M") < read("1Gi") && read("1024Mi") == read("1Gi"));
}

#[test]
fn numbers_are_quantities_too() {
    for (json, printed) in [
        ("2", "2"),
        ("0.5", "500m"),
        ("-1", "-1"),
        ("\"1Gi\"", "1Gi"),
        ("1e3", "1k"),
    ] {
        let quantity: Quantity = serde_json::from_str(json).expect(json);
        assert_eq!(quantity.to_string(), printed);
    }
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

/// The same grammar with big fractions and no thought of speed: the amount as numerator over a power of ten.
fn naive(sign: &str, whole: &str, fraction: &str, suffix: &str) -> BigInt {
    let number: BigInt = format!("0{whole}{fraction}").parse().expect("digits");
    let mut tens = 9 - i64::try_from(fraction.len()).expect("short");
    let mut numerator = number;
    match suffix {
        "n" => tens -= 9,
        "u" => tens -= 6,
        "m" => tens -= 3,
        "" => {}
        "k" => tens += 3,
        "M" => tens += 6,
        "G" => tens += 9,
        "T" => tens += 12,
        "P" => tens += 15,
        "E" => tens += 18,
        "Ki" => numerator *= BigInt::from(1u64 << 10),
        "Mi" => numerator *= BigInt::from(1u64 << 20),
        "Gi" => numerator *= BigInt::from(1u64 << 30),
        "Ti" => numerator *= BigInt::from(1u64 << 40),
        "Pi" => numerator *= BigInt::from(1u64 << 50),
        "Ei" => numerator *= BigInt::from(1u64 << 60),
        exponent => tens += exponent[1..].parse::<i64>().expect("an exponent"),
    }
    let power = BigInt::from(10).pow(u32::try_from(tens.unsigned_abs()).expect("small"));
    let nanos = if tens >= 0 {
        numerator * power
    } else {
        (numerator + &power - 1) / power
    };
    let capped = nanos.min(BigInt::from(MAX));
    if sign == "-" { -capped } else { capped }
}

const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

fn parts() -> impl Strategy<Value = (String, String, String, String)> {
    let digits = (any::<u128>(), 0..26_usize).prop_map(|(number, length)| format!("{number:026}")[..length].to_owned());
    let suffix = (0..40_usize, -40..40_i8).prop_map(|(position, exponent)| match SUFFIXES.get(position) {
        Some(suffix) => (*suffix).to_owned(),
        None if position % 2 == 0 => format!("e{exponent}"),
        None => format!("E{exponent:+}"),
    });
    (
        (0..3_usize).prop_map(|sign| ["", "+", "-"][sign].to_owned()),
        digits.clone(),
        digits,
        suffix,
    )
}

fn text((sign, whole, fraction, suffix): &(String, String, String, String)) -> String {
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}{suffix}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn amounts_sums_and_comparisons_agree_with_big_integers(one in parts(), other in parts()) {
        // An empty text is no quantity.
        let (a, b) = (format!("0{}", text(&one).trim_start_matches(['+', '-'])), text(&other));
        prop_assume!(!b.is_empty());
        let (a, b) = (read(&a), read(&b));
        let naive_a = naive("", &one.1, &one.2, &one.3);
        let naive_b = naive(&other.0, &other.1, &other.2, &other.3);
        prop_assert_eq!(BigInt::from(a.nanos), naive_a.clone());
        prop_assert_eq!(BigInt::from(b.nanos), naive_b.clone());
        prop_assert_eq!(a.cmp(&b), naive_a.cmp(&naive_b));
        let cap = BigInt::from(MAX);
        let sum = (naive_a.clone() + naive_b.clone()).clamp(-cap.clone(), cap.clone());
        prop_assert_eq!(BigInt::from(a.plus(b).nanos), sum);
        let difference = (naive_a - naive_b).clamp(-cap.clone(), cap);
        prop_assert_eq!(BigInt::from(a.minus(b).nanos), difference);
    }

    #[test]
    fn what_is_printed_reads_the_same_and_prints_the_same(parts in parts()) {
        let given = text(&parts);
        prop_assume!(!given.is_empty());
        let quantity = read(&given);
        let printed = quantity.to_string();
        let again = read(&printed);
        // Powers of 1024 are printed without fractions, and without a suffix where none fits, as Kubernetes does.
        if quantity.notation == Notation::Binary {
            prop_assert_eq!(again.value(), quantity.value());
        } else {
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), printed);
        }
    }

    #[test]
    fn no_text_makes_reading_panic(given in "\\PC{0,12}") {
        let _ = given.parse::<Quantity>();
    }
}
