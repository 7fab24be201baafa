// Backtraces: return addresses while logs are decoded, stacks of functions once they are sealed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "raw/symbols.h"
#include "warpline_cuda.h"

namespace warpline {

class RawTexts;

// A file that code of a process came from.
struct CodeModule {
  uint64_t bias = 0;  // what its own addresses were moved by
  uint64_t begin = 0;
  uint64_t end = 0;
  BuildId build{};
  std::string path;
};

// Words of a record that was read.
struct ChainWords {
  uint32_t first = 0;
  uint32_t count = 0;
};

// What a call has: a native chain, one of Python, or both.
struct CallChain {
  int32_t process = 0;
  ChainWords native;   // of `addresses`
  ChainWords python;   // of `python_words`, two for each frame
  uint64_t instruction = 0;  // where the innermost function was; 0: `native` begins with it
  int32_t stack = -1;  // once sealed; -1 for a chain without frames
};

// The code of a Python function.
struct PythonCode {
  std::string file;
  std::string name;
  std::string lines;  // the table of them
  raw::PythonLines format{};
  uint32_t first_line = 0;
};

// Kinds of code, as the schema numbers them.
enum class CodeKind : int32_t { kNative = 1, kPython = 3 };

struct CodeFrame {
  int32_t symbol = 0;  // texts
  int32_t module = 0;
  bool is_unresolved = false;
  uint64_t address = 0;  // native code
  int64_t line = 0;      // 0: not known
  CodeKind kind = CodeKind::kNative;
  int32_t file = -1;     // text: the source of native code; -1: not known

  auto operator<=>(const CodeFrame &) const = default;
};

// A frame and the stack of its caller, an earlier row; -1 for the outermost.
struct Stack {
  int32_t parent = -1;
  int32_t frame = 0;
  int32_t depth = 0;
};

struct CallChains {
  // Of a process, by the agent's number.
  template <class Item>
  using ByNumber = std::map<std::pair<int32_t, uint64_t>, Item>;

  Decompress decompress = nullptr;
  std::vector<CallChain> chains;
  std::vector<uint64_t> addresses;
  std::vector<uint64_t> python_words;
  ByNumber<uint32_t> chain_of;  // native alone
  ByNumber<ChainWords> python_chains;
  ByNumber<PythonCode> python_code;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> with_python;  // native or 0, first word of Python
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> with_instruction;  // chain or 0 of a process
  std::map<int32_t, std::vector<CodeModule>> modules;         // by process
  std::vector<Stack> stacks;                                  // once sealed
  std::vector<CodeFrame> frames;

  // Each takes the whole record and returns whether it is sound.
  bool add_chain(int32_t process, const uint64_t *record, std::size_t words);
  bool add_module(int32_t process, const uint64_t *record, std::size_t words);
  bool add_python_chain(int32_t process, const uint64_t *record, std::size_t words);
  bool add_python_code(int32_t process, const uint64_t *record, std::size_t words);

  // Returns the chain of a number, counted from 1, or 0 if there is none.
  uint32_t find(int32_t process, uint64_t number) const;
  // Returns the chain that has the frames of Python as well; `native` is what `find` returned.
  uint32_t add_python(int32_t process, uint32_t native, uint64_t python_number);
  // Returns the chain of the callers of a function, 0 for none, with where that was.
  uint32_t add_instruction(int32_t process, uint32_t callers, uint64_t instruction);
  // Returns the stack of a chain, -1 if it has none.
  int32_t stack_of(uint32_t chain) const { return chain == 0 ? -1 : chains[chain - 1].stack; }
};

// Where an instruction is: texts of the function, or of the address where its name is not known, and of
// the file.
struct CodePlace {
  int32_t function = 0;
  int32_t module = 0;
};

// Returns the places of instructions, each the address of one in a process.
std::vector<CodePlace> places_of(const CallChains &chains,
                                 const std::vector<std::pair<int32_t, uint64_t>> &instructions,
                                 RawTexts &texts);

// Makes functions of addresses; equal frames, and stacks of equal callers, share a row. Frames of the
// profiler at a chain's inner end are left out. Python's frames take the place of the interpreter's.
void seal_chains(CallChains &chains, RawTexts &texts);

}  // namespace warpline
