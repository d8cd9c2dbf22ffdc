//! Which operations a sentence names.

use std::sync::LazyLock;

use crate::known::Known;

/// What a sentence says of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    pub(crate) sum: bool,
    pub(crate) count: bool,
    pub(crate) difference: bool,
    /// Whether it says that something follows from what was said.
    pub(crate) follows: bool,
    /// Whether it counts from the start of the run: `in nine days`.
    pub(crate) from_start: bool,
    /// Whether it names an average.
    pub(crate) average: bool,
    /// Whether it names a month and a year.
    pub(crate) yearly: bool,
}

impl Operations {
    /// The operations that a text names; `words` are its folded words.
    pub(crate) fn of<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Self {
        let mut named = Self::default();
        // These scripts set no spaces.
        if !text.is_ascii() {
            let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
            named.sum = has(&["合計", "計で", "合わせて", "合わせると", "全部で", "つで", "総額"]);
            named.difference = has(&[
                "短縮",
                "増加",
                "減少",
                "差",
                "遅れ",
                "残り",
                "不足",
                "超過",
                "増え",
                "減り",
                "減って",
                "上が",
                "下が",
                "より",
                "比べ",
                "上回",
                "下回",
                "超え",
                "空",
                "残",
                "引",
                "まで",
                "かかり",
                "間で",
            ]);
            named.average = has(&["平均"]);
            named.from_start = has(&["あと", "後", "前", "経過"]);
            named.follows = has(&[
                "したがって",
                "よって",
                "つまり",
                "すなわち",
                "になります",
                "となります",
                "平均",
                "あたり",
                "につき",
            ]);
            named.count = named.sum || ["件", "個", "回", "名"].iter().any(|word| text.contains(word));
        }
        let (mut month, mut year) = (false, false);
        for word in words {
            named.from_start |= matches!(
                word,
                "in" | "ago"
                    | "now"
                    | "seit"
                    | "since"
                    | "dans"
                    | "depuis"
                    | "desde"
                    | "dentro"
                    | "binnen"
                    | "hace"
                    | "vor"
                    | "noch"
                    | "zurück"
                    | "her"
                    | "open"
                    | "old"
                    | "overdue"
                    | "offen"
                    | "ouvert"
                    | "ouverte"
                    | "abierto"
                    | "abierta"
                    | "expired"
                    | "behind"
                    | "due"
                    | "late"
                    | "überfällig"
                    | "retard"
                    | "today"
                    | "heute"
                    | "hui"
                    | "hoy"
            );
            month |= matches!(word, "month" | "monthly" | "monat" | "monatlich" | "mois" | "mes");
            year |=
                matches!(word, "year" | "yearly" | "annually" | "annum" | "jahr" | "jährlich" | "an" | "año");
            let lists = LISTS.bits(word);
            named.average |= lists & OF_AVERAGE != 0;
            named.sum |= lists & OF_SUM != 0;
            named.count |= lists & (OF_SUM | OF_COUNT) != 0;
            named.difference |= lists & OF_DIFFERENCE != 0;
            named.follows |= lists & OF_FOLLOWS != 0;
        }
        named.yearly = month && year;
        named
    }
}

/// The lists of words that name operations.
static LISTS: LazyLock<Known> = LazyLock::new(|| {
    Known::of(&[
        (SUM, OF_SUM),
        (COUNT, OF_COUNT),
        (DIFFERENCE, OF_DIFFERENCE),
        (FOLLOWS, OF_FOLLOWS),
        (AVERAGE, OF_AVERAGE),
    ])
});

const OF_SUM: u32 = 1;
const OF_COUNT: u32 = 2;
const OF_DIFFERENCE: u32 = 4;
const OF_FOLLOWS: u32 = 8;
const OF_AVERAGE: u32 = 16;

const SUM: &[&str] = &[
    "all",
    "tout",
    "ganzen",
    "total",
    "totals",
    "totalling",
    "totaling",
    "sum",
    "altogether",
    "together",
    "combined",
    "overall",
    "add",
    "adds",
    "comes",
    "come",
    "makes",
    "both",
    "insgesamt",
    "zusammen",
    "summe",
    "gesamt",
    "somme",
    "suma",
    "ensemble",
    "font",
    "montent",
    "totalisent",
    "importan",
    "ascienden",
    "belaufen",
    "amount",
    "amounts",
    "totalled",
    "jointly",
    "gemeinsam",
    "sommes",
    "totale",
    "totalise",
    "suman",
    "juntos",
    "juntas",
    "ergeben",
    "ergibt",
    "合計",
    "計",
];

const COUNT: &[&str] = &[
    "count", "number", "there", "found", "lists", "listed", "returned", "has", "have", "all", "of", "sur",
    "von", "anzahl", "gibt", "gab", "hay", "nombre", "número", "件",
];

const AVERAGE: &[&str] = &[
    "average",
    "averages",
    "averaged",
    "mean",
    "schnitt",
    "durchschnitt",
    "durchschnittlich",
    "durchschnittliche",
    "mittel",
    "mittelwert",
    "moyenne",
    "media",
    "promedio",
];

/// Words of a sentence that draws a conclusion.
const FOLLOWS: &[&str] = &[
    "so",
    "that",
    "which",
    "thus",
    "therefore",
    "hence",
    "means",
    "makes",
    "equals",
    "leaves",
    "leaving",
    "left",
    "remaining",
    "remains",
    "worth",
    "after",
    "net",
    "short",
    "over",
    "total",
    "pay",
    "pays",
    "owe",
    "owes",
    "gets",
    "end",
    "ends",
    "cost",
    "costs",
    "add",
    "adds",
    "per",
    "each",
    "times",
    "average",
    "also",
    "macht",
    "damit",
    "somit",
    "daher",
    "bleiben",
    "bleibt",
    "fehlen",
    "fehlt",
    "je",
    "pro",
    "rest",
    "entspricht",
    "geht",
    "sind",
    "soit",
    "donc",
    "reste",
    "fait",
    "par",
    "chacun",
    "decir",
    "supone",
    "suponen",
    "quedan",
    "queda",
    "serían",
    "cada",
    "cuesta",
    "por",
    "unos",
    "serait",
    "resteraient",
    "restait",
    "restaient",
    "resteront",
    "restera",
    "quedaban",
    "quedarían",
    "quedarán",
    "quedará",
    "sobran",
    "blieben",
    "blieb",
    "bleibe",
    "verbleiben",
    "verbleibt",
    "übrig",
    "übrigen",
    "remained",
    "remain",
    "spare",
    "free",
    "empty",
    "unused",
    "libres",
    "frei",
    "resterait",
    "restent",
    "restant",
    "dus",
    "ergibt",
    "ergeben",
    "beträgt",
    "betrug",
    "durchschnitt",
    "durchschnittlich",
    "schnitt",
    "moyenne",
    "media",
    "promedio",
    "ie",
    "means",
    "mean",
    "share",
    "offen",
    "también",
    "resulta",
    "vaut",
    "valent",
    "vale",
    "valen",
    "kostet",
    "kosten",
    "coûte",
    "coûtent",
    "cuestan",
    "faltan",
];

const DIFFERENCE: &[&str] = &[
    "difference",
    "less",
    "more",
    "fewer",
    "higher",
    "lower",
    "above",
    "below",
    "increase",
    "increased",
    "decrease",
    "decreased",
    "dropped",
    "grew",
    "reduction",
    "reduced",
    "compared",
    "apart",
    "between",
    "rise",
    "rose",
    "fell",
    "mehr",
    "weniger",
    "plus",
    "moins",
    "más",
    "menos",
    "later",
    "late",
    "after",
    "before",
    "within",
    "took",
    "takes",
    "lasted",
    "statt",
    "instead",
    "spät",
    "earlier",
    "short",
    "delay",
    "verspätung",
    "später",
    "retard",
    "retraso",
    "réduction",
    "baisse",
    "hausse",
    "trop",
    "reducción",
    "aumento",
    "bajó",
    "subió",
    "rückgang",
    "anstieg",
    "steigt",
    "stieg",
    "sinkt",
    "sank",
    "gesunken",
    "gestiegen",
    "prozentpunkte",
    "points",
    "differenz",
    "unterschied",
    "différence",
    "diferencia",
    "off",
    "under",
    "beyond",
    "exceeds",
    "exceeded",
    "exceeding",
    "gap",
    "spread",
    "majority",
    "dépasse",
    "dépassent",
    "supera",
    "superan",
    "übersteigt",
    "überschreitet",
    "excède",
    "rebasa",
    "mehrheit",
    "majorité",
    "mayoría",
    "vorsprung",
    "avance",
    "ventaja",
    "lead",
    "ahead",
    "behind",
    "range",
    "longer",
    "heavier",
    "lighter",
    "older",
    "younger",
    "larger",
    "smaller",
    "greater",
    "bigger",
    "cheaper",
    "dearer",
    "faster",
    "slower",
    "taller",
    "warmer",
    "colder",
    "wider",
    "deeper",
    "länger",
    "kürzer",
    "höher",
    "niedriger",
    "tiefer",
    "größer",
    "kleiner",
    "schwerer",
    "leichter",
    "älter",
    "jünger",
    "teurer",
    "billiger",
    "günstiger",
    "schneller",
    "langsamer",
    "wärmer",
    "kälter",
    "frente",
    "auparavant",
    "davantage",
    "mayor",
    "menor",
    "shorter",
    "extra",
    "additional",
    "zusätzlich",
    "supplémentaires",
    "adicionales",
    "grown",
    "rises",
    "falls",
    "gained",
    "lost",
    "saves",
    "saved",
    "spart",
    "exceeding",
    "surplus",
    "shortfall",
    "overdue",
    "overrun",
    "many",
    "much",
    "dauerte",
    "vergingen",
    "lagen",
    "zwischen",
    "nach",
    "après",
    "entre",
    "duré",
    "durée",
    "tarde",
    "después",
    "duró",
    "tardó",
    "unter",
    "über",
    "debajo",
    "encima",
    "dessous",
    "dessus",
    "zuvor",
    "vorher",
    "antes",
    "avant",
    "until",
    "till",
    "from",
];
