#include "library_calls/gemm_arguments.h"

#include <iterator>

namespace warpline::agent {
namespace {

using Field = GemmField;

constexpr std::string_view kKeys[kGemmFields] = {
    "transa",   "transb",   "m",        "n",           "k",      "lda",    "ldb",
    "ldc",      "stride_a", "stride_b", "stride_c",    "batch_count", "type_a", "type_b",
    "type_c",   "compute",  "math",     "epilogue",
};

// The parameters of a function by its name without the type's letter: a letter each, '.' for those that
// say nothing here. a b: transposes; m n k: sizes; 1 2 3: leading dimensions; x y z: strides; c: batch
// count; A B C: types; p: compute type.
struct Shape {
  std::string_view name;
  std::string_view parameters;
};
constexpr Shape kShapes[] = {
    {"gemm", ".abmnk..1.2..3"},
    {"gemmEx", ".abmnk..A1.B2..C3"},
    {"GemmEx", ".abmnk..A1.B2..C3p"},
    {"gemmBatched", ".abmnk..1.2..3c"},
    {"GemmBatchedEx", ".abmnk..A1.B2..C3cp"},
    {"gemmStridedBatched", ".abmnk..1x.2y..3zc"},
    {"GemmStridedBatchedEx", ".abmnk..A1x.B2y..C3zcp"},
};

constexpr Field field_of(char letter) noexcept {
  switch (letter) {
    case 'a': return Field::kTransA;
    case 'b': return Field::kTransB;
    case 'm': return Field::kM;
    case 'n': return Field::kN;
    case 'k': return Field::kK;
    case '1': return Field::kLdA;
    case '2': return Field::kLdB;
    case '3': return Field::kLdC;
    case 'x': return Field::kStrideA;
    case 'y': return Field::kStrideB;
    case 'z': return Field::kStrideC;
    case 'c': return Field::kBatchCount;
    case 'A': return Field::kTypeA;
    case 'B': return Field::kTypeB;
    case 'C': return Field::kTypeC;
    case 'p': return Field::kCompute;
    default: return Field::kNone;
  }
}

constexpr bool is_stride(Field field) noexcept {
  return field == Field::kStrideA || field == Field::kStrideB || field == Field::kStrideC;
}
constexpr bool is_word(Field field) noexcept {  // an enumeration, whatever the size of sizes
  return field == Field::kTransA || field == Field::kTransB || field == Field::kTypeA ||
         field == Field::kTypeB || field == Field::kTypeC || field == Field::kCompute;
}

// Numbers of cudaDataType_t and cublasComputeType_t.
constexpr std::string_view kTypes[] = {
    "R_32F",      "R_64F",      "R_16F",       "R_8I",       "C_32F",      "C_64F",     "C_16F",
    "C_8I",       "R_8U",       "C_8U",        "R_32I",      "C_32I",      "R_32U",     "C_32U",
    "R_16BF",     "C_16BF",     "R_4I",        "C_4I",       "R_4U",       "C_4U",      "R_16I",
    "C_16I",      "R_16U",      "C_16U",       "R_64I",      "C_64I",      "R_64U",     "C_64U",
    "R_8F_E4M3",  "R_8F_E5M2",  "R_8F_UE8M0",  "R_6F_E2M3",  "R_6F_E3M2",  "R_4F_E2M1",
};
struct Compute {
  std::int64_t number;
  std::string_view name;
};
constexpr Compute kComputes[] = {
    {64, "16F"},           {65, "16F_PEDANTIC"}, {68, "32F"},
    {69, "32F_PEDANTIC"},  {74, "32F_FAST_16F"}, {75, "32F_FAST_16BF"},
    {77, "32F_FAST_TF32"}, {70, "64F"},          {71, "64F_PEDANTIC"},
    {72, "32I"},           {73, "32I_PEDANTIC"}, {78, "32F_EMULATED_16BFX9"},
};
constexpr std::int64_t kTf32Math = 3;  // CUBLAS_TF32_TENSOR_OP_MATH

std::string type_text(std::int64_t number) {
  const bool is_known = number >= 0 && number < std::int64_t{std::size(kTypes)};
  return is_known ? std::string(kTypes[number]) : std::to_string(number);
}

std::string compute_text(std::int64_t number) {
  for (const Compute& known : kComputes) {
    if (known.number == number) return std::string(known.name);
  }
  return type_text(number);  // before cuBLAS 11 it was a type
}

struct LetterType {
  char letter;
  std::int64_t type;
  std::int64_t compute;
};
constexpr LetterType kLetterTypes[] = {
    {'S', 0, 68}, {'D', 1, 70}, {'H', 2, 64}, {'C', 4, 68}, {'Z', 5, 70},
};

bool strip(std::string_view& text, std::string_view end) noexcept {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

// Attributes of descriptors, as cuBLASLt numbers them.
constexpr int kComputeOfMatmul = 0, kTransAOfMatmul = 3, kTransBOfMatmul = 4, kEpilogueOfMatmul = 7;
constexpr int kTypeOfLayout = 0, kRowsOfLayout = 2, kColumnsOfLayout = 3, kLdOfLayout = 4;
constexpr int kBatchOfLayout = 5, kStrideOfLayout = 6;

template <class Number, class Query>
bool ask(Query query, std::uint64_t descriptor, int attribute, std::int64_t& value) noexcept {
  Number found{};
  std::size_t written = 0;
  const void* asked = reinterpret_cast<const void*>(descriptor);
  if (asked == nullptr || query(asked, attribute, &found, sizeof found, &written) != 0) return false;
  value = static_cast<std::int64_t>(found);
  return written == sizeof found;
}

struct LayoutFields {
  std::size_t place;  // of the layout among the arguments of cublasLtMatmul
  Field type, ld, stride;
};
constexpr LayoutFields kLayouts[] = {
    {4, Field::kTypeA, Field::kLdA, Field::kStrideA},
    {6, Field::kTypeB, Field::kLdB, Field::kStrideB},
    {11, Field::kTypeC, Field::kLdC, Field::kStrideC},
};

GemmValues matmul_values(const CallArguments& arguments, const GemmQueries& queries) noexcept {
  GemmValues found;
  if (queries.of_matmul == nullptr || queries.of_layout == nullptr) return found;
  const auto of_matmul = [&](int attribute, Field field) noexcept {
    std::int64_t value = 0;
    if (ask<std::int32_t>(queries.of_matmul, arguments[1], attribute, value)) {
      found.set(field, value);
    }
    return value;
  };
  of_matmul(kTransBOfMatmul, Field::kTransB);
  of_matmul(kComputeOfMatmul, Field::kCompute);
  of_matmul(kEpilogueOfMatmul, Field::kEpilogue);
  const bool is_transposed = of_matmul(kTransAOfMatmul, Field::kTransA) != 0;
  std::int64_t batches = 1;
  for (const LayoutFields& layout : kLayouts) {
    const std::uint64_t descriptor = arguments[layout.place];
    std::int64_t value = 0;
    if (ask<std::uint32_t>(queries.of_layout, descriptor, kTypeOfLayout, value)) {
      found.set(layout.type, value);
    }
    if (ask<std::int64_t>(queries.of_layout, descriptor, kLdOfLayout, value)) {
      found.set(layout.ld, value);
    }
    if (ask<std::int32_t>(queries.of_layout, descriptor, kBatchOfLayout, value)) batches = value;
    if (batches > 1 && ask<std::int64_t>(queries.of_layout, descriptor, kStrideOfLayout, value)) {
      found.set(layout.stride, value);
    }
  }
  found.set(Field::kBatchCount, batches);  // of the result
  const auto size = [&](std::size_t layout, int attribute, Field field) noexcept {
    std::int64_t value = 0;
    const std::uint64_t descriptor = arguments[kLayouts[layout].place];
    if (ask<std::uint64_t>(queries.of_layout, descriptor, attribute, value)) found.set(field, value);
  };
  size(2, kRowsOfLayout, Field::kM);
  size(2, kColumnsOfLayout, Field::kN);
  size(0, is_transposed ? kRowsOfLayout : kColumnsOfLayout, Field::kK);
  return found;
}

}  // namespace

GemmForm gemm_form(std::string_view function) noexcept {
  constexpr std::string_view kPrefix = "cublas";
  GemmForm form;
  if (!function.starts_with(kPrefix)) return form;
  function.remove_prefix(kPrefix.size());
  if (function == "LtMatmul") {
    form.is_matmul = true;
    return form;
  }
  form.is_wide = strip(function, "_64");
  const bool has_version = strip(function, "_v2");
  bool is_3m = false;
  if (function.size() > 1 && function.substr(1).starts_with("gemm")) {
    form.letter = function.front();
    function.remove_prefix(1);
    constexpr std::string_view k3m = "gemm3m";
    is_3m = function.starts_with(k3m);
  }
  std::string_view rest = function;
  if (is_3m) rest.remove_prefix(6);  // then "gemm" and the rest
  for (const Shape& shape : kShapes) {
    const bool is_it = is_3m ? shape.name.starts_with("gemm") && shape.name.substr(4) == rest
                             : shape.name == function;
    if (!is_it) continue;
    // The function of this name without a version has no handle, and is as old as CUDA.
    const bool is_old = shape.name == "gemm" && !has_version && !is_3m && form.letter != 'H';
    if (is_old) return form;
    for (const char letter : shape.parameters) form.parameters[form.count++] = field_of(letter);
  }
  return form;
}

GemmValues gemm_values(const GemmForm& form, const CallArguments& arguments,
                       const GemmQueries& queries) noexcept {
  if (form.is_matmul) return matmul_values(arguments, queries);
  GemmValues found;
  for (const LetterType& known : kLetterTypes) {
    if (known.letter != form.letter) continue;
    for (const Field field : {Field::kTypeA, Field::kTypeB, Field::kTypeC}) {
      found.set(field, known.type);
    }
    found.set(Field::kCompute, known.compute);
  }
  for (std::size_t place = 0; place < form.count; ++place) {
    const Field field = form.parameters[place];
    if (field == Field::kNone) continue;
    const std::uint64_t word = arguments[place];
    const bool has_64_bits = is_stride(field) || (form.is_wide && !is_word(field));
    found.set(field, has_64_bits ? static_cast<std::int64_t>(word)
                                 : static_cast<std::int32_t>(static_cast<std::uint32_t>(word)));
  }
  int mode = 0;
  void* handle = reinterpret_cast<void*>(arguments[0]);
  if (queries.math_mode != nullptr && handle != nullptr && queries.math_mode(handle, &mode) == 0 &&
      mode == kTf32Math) {
    found.set(Field::kMath, mode);
  }
  return found;
}

std::string gemm_text(const GemmValues& values) {
  std::string text;
  for (std::size_t place = 0; place < kGemmFields; ++place) {
    const auto field = static_cast<Field>(place);
    if (!values.has(field)) continue;
    const std::int64_t value = values[field];
    text += text.empty() ? "{\"" : ",\"";
    text += kKeys[place];
    text += "\":";
    switch (field) {
      case Field::kTransA:
      case Field::kTransB: text += value == 0 ? "\"N\"" : value == 1 ? "\"T\"" : "\"C\""; break;
      case Field::kTypeA:
      case Field::kTypeB:
      case Field::kTypeC: text += '"' + type_text(value) + '"'; break;
      case Field::kCompute: text += '"' + compute_text(value) + '"'; break;
      case Field::kMath: text += "\"TF32\""; break;
      default: text += std::to_string(value);
    }
  }
  return text.empty() ? text : text + '}';
}

}  // namespace warpline::agent
