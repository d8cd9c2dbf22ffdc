//! Writes entries as JSON: the same bytes as `serde_json`, with texts that are escaped many bytes at a time. An entry is
//! mostly the text of a result.

use std::fmt::{self, Display, Write as _};

use loop_core::push_json_text;
use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// A value as JSON, in a text that has room for so many bytes from the start.
pub(super) fn json_of<T: Serialize + ?Sized>(value: &T, room: usize) -> Result<String, Error> {
    let mut json = Vec::with_capacity(room);
    value.serialize(Writer(&mut json))?;
    String::from_utf8(json).map_err(Error::custom)
}

/// Appends one value.
struct Writer<'j>(&'j mut Vec<u8>);

impl<'j> Writer<'j> {
    /// A value that is not written often.
    fn other(self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.0, value)
    }

    fn open(self, open: &[u8], close: &'static [u8]) -> Members<'j> {
        self.0.extend_from_slice(open);
        Members { json: self.0, is_first: true, close }
    }

    /// Opens the object that names a variant, and in it an object or an array.
    fn open_variant(self, variant: &str, open: u8, close: &'static [u8]) -> Members<'j> {
        self.0.push(b'{');
        push_text(self.0, variant);
        self.open(&[b':', open], close)
    }
}

/// Appends the members of an object or an array.
struct Members<'j> {
    json: &'j mut Vec<u8>,
    is_first: bool,
    close: &'static [u8],
}

impl Members<'_> {
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.json.push(b',');
        }
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Writer(self.json))
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.next();
        self.value(value)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.next();
        push_text(self.json, name);
        self.json.push(b':');
        self.value(value)
    }

    fn close(self) {
        self.json.extend_from_slice(self.close);
    }
}

fn push_text(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    push_json_text(json, text);
    json.push(b'"');
}

/// Appends what is displayed, as a part of a text.
struct Displayed<'j>(&'j mut Vec<u8>);

impl fmt::Write for Displayed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_json_text(self.0, text);
        Ok(())
    }
}

macro_rules! others {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, value: $type) -> Result<(), Error> {
            self.other(&value)
        }
    )*};
}

impl<'j> Serializer for Writer<'j> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Members<'j>;
    type SerializeTuple = Members<'j>;
    type SerializeTupleStruct = Members<'j>;
    type SerializeTupleVariant = Members<'j>;
    type SerializeMap = Members<'j>;
    type SerializeStruct = Members<'j>;
    type SerializeStructVariant = Members<'j>;

    others! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64, serialize_char: char
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        push_text(self.0, text);
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(b'"');
        write!(Displayed(self.0), "{value}").map_err(Error::custom)?;
        self.0.push(b'"');
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.other(&bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut members = self.open(b"{", b"}");
        members.field(variant, value)?;
        members.close();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Members<'j>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Members<'j>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Members<'j>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'j>, Error> {
        Ok(self.open_variant(variant, b'[', b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'j>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'j>, Error> {
        // `serde_json` names its own types so, which it writes in another way.
        if name.starts_with("$serde_json") {
            return Err(Error::custom("JSON that is not parsed is not part of an entry"));
        }
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'j>, Error> {
        Ok(self.open_variant(variant, b'{', b"}}"))
    }
}

macro_rules! items {
    ($($kind:ident::$method:ident),*) => {$(
        impl $kind for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    )*};
}

macro_rules! fields {
    ($($kind:ident),*) => {$(
        impl $kind for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    )*};
}

items!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);
fields!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        let start = self.json.len();
        self.value(key)?;
        match self.json.get(start) {
            Some(b'"') => {}
            // A number or a truth value as a text.
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.json.insert(start, b'"');
                self.json.push(b'"');
            }
            _ => return Err(Error::custom("a key must be a text")),
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.json.push(b':');
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use loop_testkit::{Numbers, random_run, random_setup};
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Wrapped(u8);

    #[derive(Serialize)]
    enum Variant {
        Unit,
        Newtype(Box<Variant>),
        Tuple(u128, i64),
        Struct { a: Option<f64>, b: char },
    }

    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Tagged {
        Empty,
        Struct { text: String },
        Newtype(BTreeMap<u8, bool>),
    }

    fn is_same(value: &impl Serialize) {
        assert_eq!(json_of(value, 0).unwrap(), serde_json::to_string(value).unwrap());
    }

    #[test]
    fn each_kind_of_value_is_written_as_serde_json_writes_it() {
        is_same(&(Unit, Wrapped(7), (), Some(1), None::<u8>, true, false, -5_i8, i128::MIN, u128::MAX));
        is_same(&(1.0_f64, 0.1_f32, f64::NAN, f64::MAX, 'é', '"', "a\"b\\c\n\u{1}é\u{1f600}"));
        is_same(&[Variant::Unit, Variant::Newtype(Box::new(Variant::Unit)), Variant::Tuple(u128::MAX, -1)]);
        is_same(&[Variant::Struct { a: None, b: '\u{7f}' }, Variant::Struct { a: Some(0.5), b: '\t' }]);
        is_same(&(
            Vec::<u8>::new(),
            [[1, 2], [3, 4]],
            BTreeMap::from([("\n", [()])]),
            BTreeMap::<u8, u8>::new(),
        ));
        is_same(&(
            BTreeMap::from([(-1, "a"), (2, "b")]),
            BTreeMap::from([(true, 1)]),
            BTreeMap::from([('"', 1)]),
        ));
        is_same(&[Tagged::Empty, Tagged::Struct { text: "\r".into() }, Tagged::Newtype([(1, true)].into())]);
        is_same(&serde_json::json!({"a": [1, 2.5, null, {"": "\u{0}"}], "b": u64::MAX}));
    }

    #[test]
    fn the_entries_of_random_runs_are_written_as_serde_json_writes_them() {
        let mut entries = 0;
        for seed in 0..150 {
            let mut numbers = Numbers(seed);
            for (event, notes, _) in &random_run(random_setup(&mut numbers), &mut numbers).journal {
                is_same(event);
                is_same(notes);
                entries += 1;
            }
        }
        assert!(entries > 300, "{entries}");
    }

    #[test]
    fn what_serde_json_refuses_as_a_key_is_refused() {
        for key in [None, Some(vec![1])] {
            let map = BTreeMap::from([(key, 1)]);
            assert!(json_of(&map, 0).is_err() && serde_json::to_string(&map).is_err());
        }
    }

    #[test]
    fn json_that_is_not_parsed_is_refused_and_not_written_otherwise() {
        assert!(json_of(&RawValue::from_string("1".to_owned()).unwrap(), 0).is_err());
    }
}
