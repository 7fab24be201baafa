// The bytes of kSchema, kEnum and kPayload records: what a program attaches to its NVTX events.
//
// A program describes the layout of a payload once (a schema: entries, like the fields of a C
// struct), then attaches blobs of that layout to events. The numbers below (types, flags) are
// NVTX's; the serialisation is ours. Integers are little-endian and not aligned. A text is
// u16 bytes, then the bytes, UTF-8; no text and an empty one look the same.
//
// kSchema, [schema id][bytes] and:
//     u16 version        kPayloadTextVersion
//     u16 compat_id      of the program's NVTX headers; see kOldestCompatId
//     u32 schema type    SchemaType
//     u64 flags          kSchema...
//     u64 static_bytes   size of the payload; 0: not given, or dynamic
//     u64 pack_align     largest alignment of an entry; 0: natural
//     text name
//     u32 entries, then for each:
//         u64 flags      kEntry...
//         u64 type       PayloadType, or the id of a schema or an enum of the same domain
//         u64 detail     length of an array or string, or place of the entry that holds it, or
//                        of the entry that selects a union's member
//         u64 offset     in the payload; 0 but in the first entry: after the entry before it,
//                        at the next multiple of its alignment
//         u32 bytes      of one element; 0: not known (dynamic, or an unknown type)
//         u32 align      of one element, pack_align applied
//         text name
//         text description
//
// kEnum, [schema id][bytes] and:
//     u16 version, u16 compat_id
//     u32 enum_bytes     size of a value of it
//     text name
//     u32 entries, then for each: u64 value, u8 is_flag, text name
//
// kPayload, [schema id][bytes][the payload, as the program gave it, padded to words]. The schema
// id may also be a PayloadType: then the payload is one value, an array of them or, for strings,
// the characters; or kBlobReferenced or kBlobRaw. With the flag kPayloadHasTargets the payload holds
// pointers, which mean nothing later, and what they pointed to follows:
//     [targets], then for each: [offset of the pointer in the payload (low 32) | bytes << 32]
//     [the bytes, padded to words]
// Texts in targets are UTF-8 whatever the entry's type. A registered string is written once per log,
// as kString: its target has kTargetInSlot for its bytes and, instead of them, a word with the slot.
// Registered strings that slots do not cover are texts like others.
// Other targets are elements of the entry's type. A pointer without a target was null, or was
// left out (LogHeader::cut_texts counts those).
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::raw {

inline constexpr std::uint16_t kPayloadTextVersion = 1;
inline constexpr std::uint32_t kTargetInSlot = 0xFFFFFFFF;

// 0x0103 and 0x0104 have the same layouts. Headers of the first 0x0103 differ in two numbers:
// entry flag 1 << 9 asks for a deep copy there, and types 67 and 68 are normalised integers.
inline constexpr std::uint16_t kOldestCompatId = 0x0103;
inline constexpr std::uint16_t kNewestCompatId = 0x0104;

// Schema ids that are not schemas.
inline constexpr std::uint64_t kBlobReferenced = 1022;  // other payloads of the event point to it
inline constexpr std::uint64_t kBlobRaw = 1023;
inline constexpr std::uint64_t kFirstStaticSchema = 1u << 24;             // chosen by programs
inline constexpr std::uint64_t kFirstDynamicSchema = std::uint64_t{1} << 32;  // chosen by the agent

enum class SchemaType : std::uint32_t {
  kInvalid = 0,
  kStatic = 1,
  kDynamic = 2,               // entries follow one another; lengths are in the payload
  kUnion = 3,                 // the entry of this type names the entry that selects a member
  kUnionInternalSelector = 4  // one entry has the type kUnionSelector and selects
};

inline constexpr std::uint64_t kSchemaDeepCopy = 1u << 1;
inline constexpr std::uint64_t kSchemaReferenced = 1u << 2;

inline constexpr std::uint64_t kEntryPointer = 1u << 1;
inline constexpr std::uint64_t kEntryOffsetFromBase = 1u << 2;
inline constexpr std::uint64_t kEntryOffsetFromHere = 1u << 3;
inline constexpr std::uint64_t kEntryArrayMask = 7u << 4;
inline constexpr std::uint64_t kEntryArrayFixed = 1u << 4;          // detail: elements
inline constexpr std::uint64_t kEntryArrayZeroTerminated = 2u << 4;
inline constexpr std::uint64_t kEntryArrayLengthIndex = 3u << 4;    // detail: place of an entry
inline constexpr std::uint64_t kEntryArrayLengthPayload = 4u << 4;  // detail: place of a payload
inline constexpr std::uint64_t kEntryDeepCopy = 1u << 8;
inline constexpr std::uint64_t kEntryHide = 1u << 9;
inline constexpr std::uint64_t kEntryMessage = 1u << 10;            // names the event
inline constexpr std::uint64_t kEntryTimestamp = 2u << 10;

enum PayloadType : std::uint64_t {
  kTypeChar = 1,
  kTypeUchar = 2,
  kTypeShort = 3,
  kTypeUshort = 4,
  kTypeInt = 5,
  kTypeUint = 6,
  kTypeLong = 7,
  kTypeUlong = 8,
  kTypeLongLong = 9,
  kTypeUlongLong = 10,
  kTypeInt8 = 11,
  kTypeUint8 = 12,
  kTypeInt16 = 13,
  kTypeUint16 = 14,
  kTypeInt32 = 15,
  kTypeUint32 = 16,
  kTypeInt64 = 17,
  kTypeUint64 = 18,
  kTypeFloat = 19,
  kTypeDouble = 20,
  kTypeLongDouble = 21,
  kTypeSize = 22,
  kTypeAddress = 23,
  kTypeWchar = 24,
  kTypeChar8 = 25,
  kTypeChar16 = 26,
  kTypeChar32 = 27,
  kTypeByte = 32,
  kTypeInt128 = 33,
  kTypeUint128 = 34,
  kTypeFloat16 = 42,
  kTypeFloat32 = 43,
  kTypeFloat64 = 44,
  kTypeFloat128 = 45,
  kTypeBfloat16 = 50,
  kTypeTf32 = 52,
  kTypeRangeId = 67,
  kTypeCategory = 68,
  kTypeColor = 69,
  kTypeScope = 70,
  kTypePid32 = 71,
  kTypePid64 = 72,
  kTypeTid32 = 73,
  kTypeTid64 = 74,
  kTypeString = 75,    // locale
  kTypeStringUtf8 = 76,
  kTypeStringUtf16 = 77,
  kTypeStringUtf32 = 78,
  kTypeRegisteredString = 80,
  kTypeUnionSelector = 100,
};

constexpr bool is_string_type(std::uint64_t type) {
  return type >= kTypeString && type <= kTypeStringUtf32;
}

// Size of one value of a predefined type on this platform (of strings: of one code unit); its
// alignment is the same. 0: unknown.
constexpr std::uint32_t payload_type_bytes(std::uint64_t type) {
  switch (type) {
    case kTypeChar: case kTypeUchar: case kTypeInt8: case kTypeUint8: case kTypeChar8:
    case kTypeByte: case kTypeString: case kTypeStringUtf8:
      return 1;
    case kTypeShort: case kTypeUshort: case kTypeInt16: case kTypeUint16: case kTypeChar16:
    case kTypeFloat16: case kTypeBfloat16: case kTypeStringUtf16:
      return 2;
    case kTypeInt: case kTypeUint: case kTypeInt32: case kTypeUint32: case kTypeFloat:
    case kTypeFloat32: case kTypeTf32: case kTypeCategory: case kTypeColor: case kTypePid32:
    case kTypeTid32: case kTypeChar32: case kTypeStringUtf32:
      return 4;
    case kTypeWchar:
      return sizeof(wchar_t);
    case kTypeLong: case kTypeUlong:
      return sizeof(long);
    case kTypeSize: case kTypeAddress: case kTypeRegisteredString:
      return sizeof(void*);
    case kTypeLongLong: case kTypeUlongLong: case kTypeInt64: case kTypeUint64: case kTypeDouble:
    case kTypeFloat64: case kTypeRangeId: case kTypeScope: case kTypePid64: case kTypeTid64:
      return 8;
    case kTypeLongDouble:
      return sizeof(long double);
    case kTypeInt128: case kTypeUint128: case kTypeFloat128:
      return 16;
    default:
      return 0;
  }
}

// Whether an entry is a string that the payload points to: a string type whose entry says nothing
// of an array inside the payload.
constexpr bool is_string_pointer(std::uint64_t type, std::uint64_t flags, std::uint64_t detail) {
  if (!is_string_type(type)) return false;
  if ((flags & kEntryPointer) != 0) return true;
  if ((flags & (kEntryOffsetFromBase | kEntryOffsetFromHere)) != 0) return false;
  return (flags & kEntryArrayMask) == 0 && detail == 0;
}

}  // namespace warpline::raw
