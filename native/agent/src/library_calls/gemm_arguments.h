// What the arguments of a GEMM call of cuBLAS say: sizes, types, layouts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "library_calls/trampoline.h"

namespace warpline::agent {

// Arguments by their keys in the JSON object.
enum class GemmField : std::uint8_t {
  kTransA, kTransB, kM, kN, kK, kLdA, kLdB, kLdC, kStrideA, kStrideB, kStrideC, kBatchCount, kTypeA,
  kTypeB, kTypeC, kCompute, kMath, kEpilogue, kNone
};
inline constexpr std::size_t kGemmFields = static_cast<std::size_t>(GemmField::kNone);

struct GemmValues {
  std::array<std::int64_t, kGemmFields> values;
  std::uint32_t known = 0;  // a bit per field

  void set(GemmField field, std::int64_t value) noexcept {
    values[static_cast<std::size_t>(field)] = value;
    known |= 1u << static_cast<std::uint32_t>(field);
  }
  bool has(GemmField field) const noexcept {
    return (known >> static_cast<std::uint32_t>(field) & 1) != 0;
  }
  std::int64_t operator[](GemmField field) const noexcept {
    return values[static_cast<std::size_t>(field)];
  }
};

// Where the arguments of a function are.
struct GemmForm {
  static constexpr std::size_t kMostParameters = 24;

  std::array<GemmField, kMostParameters> parameters;
  std::uint8_t count = 0;
  char letter = 0;         // of the type in the function's name, 0: none
  bool is_wide = false;    // sizes have 64 bits
  bool is_matmul = false;  // cublasLtMatmul: its descriptors say it

  explicit operator bool() const noexcept { return count != 0 || is_matmul; }
};

// Functions of the library that tell more; each may be null.
struct GemmQueries {
  int (*math_mode)(void* handle, int* mode) = nullptr;
  int (*of_matmul)(const void* descriptor, int attribute, void* value, std::size_t bytes,
                   std::size_t* written) = nullptr;
  int (*of_layout)(const void* descriptor, int attribute, void* value, std::size_t bytes,
                   std::size_t* written) = nullptr;
};

// Returns where a function of cuBLAS has its arguments: nothing where it is no GEMM.
GemmForm gemm_form(std::string_view function) noexcept;

GemmValues gemm_values(const GemmForm& form, const CallArguments& arguments,
                       const GemmQueries& queries) noexcept;

// As a JSON object.
std::string gemm_text(const GemmValues& values);

}  // namespace warpline::agent
