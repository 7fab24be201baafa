#include "raw/chains.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <tuple>

#include "raw/demangle.h"
#include "raw/python_lines.h"
#include "raw/texts.h"
#include "warpline_cuda.h"

namespace warpline {

namespace {

constexpr std::string_view kKernel = "[kernel]";
constexpr std::string_view kInlined = " (inlined)";  // as perf shows it
// CPython's way into its interpreter, inlined wherever that is called: Python frames take its place.
constexpr std::string_view kEntersPython = "_PyEval_EvalFrame";
constexpr std::size_t kMaxChains = 1U << 20;
constexpr std::size_t kMaxFrames = 1024;
constexpr std::size_t kMaxPythonFrames = 128;
constexpr std::size_t kMaxModules = 1U << 16;  // of a process

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_profiler(const CodeModule *module) {
  if (module == nullptr) return false;
  const std::string_view name = file_name(module->path);
  return name.starts_with("libcupti.so") || name.starts_with("libwarpline_");
}

// A call returns to what follows it, which may be another function.
uint64_t call_of(uint64_t return_address) { return return_address - 1; }

// Of modules that lay at the same place one after another, the last.
const CodeModule *module_at(const std::vector<CodeModule> &modules, uint64_t address) {
  const auto found = std::find_if(modules.rbegin(), modules.rend(), [&](const CodeModule &module) {
    return module.begin <= address && address < module.end;
  });
  return found == modules.rend() ? nullptr : &*found;
}

// A place in a file, however often it is met.
using Place = std::tuple<std::string, BuildId, uint64_t>;

std::string hexadecimal(uint64_t number) {
  std::array<char, 18> text{'0', 'x'};
  const auto result = std::to_chars(text.data() + 2, text.data() + text.size(), number, 16);
  return {text.data(), result.ptr};
}

// An instruction of a chain, and the address that it is shown with.
struct Instruction {
  uint64_t call = 0;
  uint64_t shown = 0;
};

// The native instructions of a chain, innermost first.
std::vector<Instruction> instructions_of(const CallChains &chains, const CallChain &chain) {
  std::vector<Instruction> found;
  if (chain.instruction != 0) found.push_back({chain.instruction, chain.instruction});
  for (uint32_t i = 0; i < chain.native.count; ++i) {
    const uint64_t address = chains.addresses[chain.native.first + i];
    found.push_back({call_of(address), address});
  }
  return found;
}

// Finds the module of instructions of one process, each of them once.
class Modules {
 public:
  explicit Modules(const CallChains &chains) : chains_(chains) {}

  const CodeModule *at(int32_t process, uint64_t instruction) {
    const auto [found, is_new] = known_.try_emplace({process, instruction}, nullptr);
    const auto modules = chains_.modules.find(process);
    if (is_new && modules != chains_.modules.end()) {
      found->second = module_at(modules->second, instruction);
    }
    return found->second;
  }

 private:
  const CallChains &chains_;
  std::map<std::pair<int32_t, uint64_t>, const CodeModule *> known_;
};

Place place_in(const CodeModule &module, uint64_t instruction) {
  return {module.path, module.build, instruction - module.bias};
}

// Adds frames and stacks that are new.
class Interned {
 public:
  explicit Interned(CallChains &chains) : chains_(chains) {}

  // Returns the stack of a frame whose caller's stack is `parent`, -1 for none.
  int32_t stack(int32_t parent, const CodeFrame &frame) {
    const auto [known, is_new_frame] =
        frames_.try_emplace(frame, static_cast<int32_t>(chains_.frames.size()));
    if (is_new_frame) chains_.frames.push_back(frame);
    const auto [found, is_new] = stacks_.try_emplace(
        {parent, known->second}, static_cast<int32_t>(chains_.stacks.size()));
    if (is_new) {
      const int32_t depth =
          parent < 0 ? 0 : chains_.stacks[static_cast<std::size_t>(parent)].depth + 1;
      chains_.stacks.push_back({parent, known->second, depth});
    }
    return found->second;
  }

 private:
  CallChains &chains_;
  std::map<CodeFrame, int32_t> frames_;
  std::map<std::pair<int32_t, int32_t>, int32_t> stacks_;  // parent, frame
};

// Names all places: each file is read once.
void name_places(std::map<Place, CodeName> &names, Decompress decompress) {
  for (auto begin = names.begin(); begin != names.end();) {
    const auto &[path, build, first] = begin->first;
    auto end = begin;
    std::vector<uint64_t> addresses;
    while (end != names.end() && std::get<0>(end->first) == path &&
           std::get<1>(end->first) == build) {
      addresses.push_back(std::get<2>(end++->first));
    }
    std::vector<CodeName> found = code_names(path, build, addresses, decompress);
    std::size_t number = 0;
    for (auto place = begin; place != end; ++place) place->second = std::move(found[number++]);
    begin = end;
  }
}

// What instructions are called: all of them are named at once.
class CodeNames {
 public:
  explicit CodeNames(const CallChains &chains)
      : modules_(chains), decompress_(chains.decompress) {}

  void add(int32_t process, uint64_t instruction) {
    const CodeModule *module = modules_.at(process, instruction);
    if (module != nullptr) names_.try_emplace(place_in(*module, instruction));
  }
  void name() { name_places(names_, decompress_); }

  bool is_profiler(int32_t process, uint64_t instruction) {
    return warpline::is_profiler(modules_.at(process, instruction));
  }

  // Whether an instruction is one of CPython's interpreter.
  bool is_interpreter(int32_t process, uint64_t instruction) {
    const CodeModule *module = modules_.at(process, instruction);
    if (module == nullptr) return false;
    const std::string_view name = names_[place_in(*module, instruction)].function;
    return name.starts_with("_PyEval_EvalFrameDefault") || name.starts_with("_TAIL_CALL_");
  }

  // The frames of an instruction that was added, innermost first: of functions that were inlined, and of the
  // function that it is in, shown as `address` where it has no name.
  const std::vector<CodeFrame> &frames(int32_t process, uint64_t instruction, uint64_t address, RawTexts &texts) {
    const CodeModule *module = modules_.at(process, instruction);
    const auto [known, is_new] = frames_.try_emplace({module, instruction, address});
    if (is_new) {
      const CodeName code = module == nullptr ? CodeName{} : names_[place_in(*module, instruction)];
      known->second = made(module, code, address, texts);
    }
    return known->second;
  }

 private:
  static std::vector<CodeFrame> made(const CodeModule *module, const CodeName &code, uint64_t address,
                                     RawTexts &texts) {
    std::vector<CodeFrame> frames;
    CodeFrame function = frame(module, code.function, address, texts);
    set_line(function, code.file, code.line, texts);
    for (const InlinedCall &call : code.inlined) {
      if (!call.function.empty() && call.function != kEntersPython) {
        CodeFrame inlined = function;
        inlined.symbol = texts.intern(demangle_kernel(call.function).full + std::string(kInlined));
        inlined.is_unresolved = false;
        frames.push_back(inlined);
      }
      set_line(function, call.call_file, call.call_line, texts);  // of the caller
    }
    frames.push_back(function);
    return frames;
  }

  static void set_line(CodeFrame &frame, const std::string &file, uint32_t line, RawTexts &texts) {
    frame.line = line;
    frame.file = line == 0 ? -1 : texts.intern(file);
  }

  static CodeFrame frame(const CodeModule *module, const std::string &name, uint64_t address, RawTexts &texts) {
    if (address == raw::kBrokenBacktrace) {
      const int32_t shown = texts.intern("[broken backtrace]");
      return {.symbol = shown, .module = texts.intern("[unknown]"), .is_unresolved = true};
    }
    if (module != nullptr && module->path == kKernel && name.empty()) {
      const int32_t shown = texts.intern(kKernel);  // its addresses are secret, or of an earlier boot
      return {.symbol = shown, .module = shown, .is_unresolved = true};
    }
    const std::string shown = name.empty() ? hexadecimal(address) : demangle_kernel(name).full;
    const std::string_view path = module == nullptr ? "[unknown]" : std::string_view(module->path);
    return {.symbol = texts.intern(shown),
            .module = texts.intern(path),
            .is_unresolved = name.empty(),
            .address = address};
  }

  Modules modules_;
  Decompress decompress_;
  std::map<Place, CodeName> names_;
  std::map<std::tuple<const CodeModule *, uint64_t, uint64_t>, std::vector<CodeFrame>> frames_;
};

CodeFrame python_frame(const CallChains &chains, int32_t process, const uint64_t *words,
                       RawTexts &texts) {
  const auto found = chains.python_code.find({process, words[0]});
  CodeFrame frame{.kind = CodeKind::kPython};
  frame.is_unresolved = found == chains.python_code.end();
  if (frame.is_unresolved) {
    frame.symbol = frame.module = texts.intern("[unknown]");
    return frame;
  }
  const PythonCode &code = found->second;
  frame.symbol = texts.intern(code.name);
  frame.module = texts.intern(code.file);
  const uint64_t offset = words[1] & raw::PythonFrame::kBeforeStart;
  frame.line = python_line(code.format, code.lines, code.first_line, offset);
  return frame;
}

// Takes the frames of a chain together, innermost first. A frame of the interpreter stands for all frames of
// Python that it ran, to the one where it was entered.
class Merged {
 public:
  Merged(CallChains &chains, CodeNames &names, RawTexts &texts)
      : chains_(chains), names_(names), texts_(texts) {}

  const std::vector<CodeFrame> &frames_of(const CallChain &chain) {
    frames_.clear();
    python_ = chains_.python_words.data() + chain.python.first;
    python_end_ = python_ + chain.python.count;
    const std::vector<Instruction> native = instructions_of(chains_, chain);
    uint32_t inner = 0;
    while (inner < native.size() && names_.is_profiler(chain.process, native[inner].call)) ++inner;
    for (uint32_t i = inner; i < native.size(); ++i) {
      if (runs_python(chain.process, i, native[i].call)) {
        add_python(chain.process);
      } else {
        const auto &own = names_.frames(chain.process, native[i].call, native[i].shown, texts_);
        frames_.insert(frames_.end(), own.begin(), own.end());
      }
    }
    while (python_ != python_end_) add_python(chain.process);
    return frames_;
  }

 private:
  // Whether the native frame is the one in which the next frames of Python were run: where the agent
  // does not know that, the interpreter has a name.
  bool runs_python(int32_t process, uint32_t number, uint64_t call) {
    const uint64_t *end = python_;
    while (end != python_end_ && (end[1] & raw::PythonFrame::kIsEntry) == 0) end += 2;
    if (end == python_end_) return python_ != end && names_.is_interpreter(process, call);
    const uint64_t native = end[1] >> raw::PythonFrame::kNativeShift;
    return native == 0 ? names_.is_interpreter(process, call) : native == number + 1;
  }

  void add_python(int32_t process) {
    bool is_entry = false;
    while (python_ != python_end_ && !is_entry) {
      frames_.push_back(python_frame(chains_, process, python_, texts_));
      is_entry = (python_[1] & raw::PythonFrame::kIsEntry) != 0;
      python_ += 2;
    }
  }

  CallChains &chains_;
  CodeNames &names_;
  RawTexts &texts_;
  std::vector<CodeFrame> frames_;
  const uint64_t *python_ = nullptr;
  const uint64_t *python_end_ = nullptr;
};

}  // namespace

bool CallChains::add_chain(int32_t process, const uint64_t *record, std::size_t words) {
  if (words < 3 || words > 2 + kMaxFrames) return false;
  if (chains.size() >= kMaxChains) return true;
  const auto number = static_cast<uint32_t>(chains.size() + 1);
  if (!chain_of.try_emplace({process, record[1]}, number).second) return true;
  CallChain chain;
  chain.process = process;
  chain.native = {static_cast<uint32_t>(addresses.size()), static_cast<uint32_t>(words - 2)};
  chains.push_back(chain);
  addresses.insert(addresses.end(), record + 2, record + words);
  return true;
}

bool CallChains::add_module(int32_t process, const uint64_t *record, std::size_t words) {
  if (words < 3 || record[2] > words * 8) return false;
  const std::size_t bytes = record[2];
  raw::ModuleText text;
  if (3 + raw::words_for(bytes) != words || bytes < sizeof text) return false;
  std::memcpy(&text, record + 3, sizeof text);
  std::vector<CodeModule> &all = modules[process];
  if (all.size() >= kMaxModules) return true;
  CodeModule module{record[1], text.first_address, text.end_address, {}, {}};
  std::memcpy(module.build.data(), text.build_id, sizeof text.build_id);
  const auto *path = reinterpret_cast<const char *>(record + 3) + sizeof text;
  module.path.assign(path, strnlen(path, bytes - sizeof text));
  all.push_back(std::move(module));
  return true;
}

bool CallChains::add_python_chain(int32_t process, const uint64_t *record, std::size_t words) {
  if (words < 4 || words % 2 != 0 || words > 2 + 2 * kMaxPythonFrames) return false;
  if (python_chains.size() >= kMaxChains) return true;
  const ChainWords chain{static_cast<uint32_t>(python_words.size()),
                         static_cast<uint32_t>(words - 2)};
  if (!python_chains.try_emplace({process, record[1]}, chain).second) return true;
  python_words.insert(python_words.end(), record + 2, record + words);
  return true;
}

bool CallChains::add_python_code(int32_t process, const uint64_t *record, std::size_t words) {
  if (words < 3 || record[2] > words * 8) return false;
  const std::size_t bytes = record[2];
  raw::PythonCodeText text;
  if (3 + raw::words_for(bytes) != words || bytes < sizeof text) return false;
  std::memcpy(&text, record + 3, sizeof text);
  std::string_view rest(reinterpret_cast<const char *>(record + 3) + sizeof text,
                        bytes - sizeof text);
  if (text.file_bytes > rest.size() || text.name_bytes > rest.size() - text.file_bytes) return false;
  PythonCode &code = python_code[{process, record[1]}];
  code.file = rest.substr(0, text.file_bytes);
  code.name = rest.substr(text.file_bytes, text.name_bytes);
  code.lines = rest.substr(std::size_t{text.file_bytes} + text.name_bytes);
  code.format = text.format;
  code.first_line = text.first_line;
  return true;
}

uint32_t CallChains::add_python(int32_t process, uint32_t native, uint64_t python_number) {
  const auto python = python_chains.find({process, python_number});
  if (python == python_chains.end()) return native;
  const auto [found, is_new] = with_python.try_emplace(
      {native, python->second.first}, static_cast<uint32_t>(chains.size() + 1));
  if (is_new) {
    CallChain chain;
    chain.process = process;
    if (native != 0) chain.native = chains[native - 1].native;
    chain.python = python->second;
    chains.push_back(chain);
  }
  return found->second;
}

uint32_t CallChains::add_instruction(int32_t process, uint32_t callers, uint64_t instruction) {
  CallChain chain;
  if (callers != 0) chain = chains[callers - 1];
  chain.process = process;
  chain.instruction = instruction;
  const uint32_t key = callers == 0 ? UINT32_MAX - static_cast<uint32_t>(process) : callers;
  const auto number = static_cast<uint32_t>(chains.size() + 1);
  const auto [found, is_new] = with_instruction.try_emplace({key, instruction}, number);
  if (is_new) chains.push_back(chain);
  return found->second;
}

uint32_t CallChains::find(int32_t process, uint64_t number) const {
  const auto found = chain_of.find({process, number});
  return found == chain_of.end() ? 0 : found->second;
}

std::vector<CodePlace> places_of(const CallChains &chains,
                                 const std::vector<std::pair<int32_t, uint64_t>> &instructions,
                                 RawTexts &texts) {
  CodeNames names(chains);
  for (const auto &[process, instruction] : instructions) names.add(process, instruction);
  names.name();
  std::vector<CodePlace> places;
  for (const auto &[process, instruction] : instructions) {
    const CodeFrame &frame = names.frames(process, instruction, instruction, texts).back();
    places.push_back({frame.symbol, frame.module});
  }
  return places;
}

void seal_chains(CallChains &chains, RawTexts &texts) {
  CodeNames names(chains);
  for (const CallChain &chain : chains.chains) {
    for (const Instruction &instruction : instructions_of(chains, chain)) {
      names.add(chain.process, instruction.call);
    }
  }
  names.name();
  Merged merged(chains, names, texts);
  Interned interned(chains);
  for (CallChain &chain : chains.chains) {
    const std::vector<CodeFrame> &frames = merged.frames_of(chain);
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {  // outermost first
      chain.stack = interned.stack(chain.stack, *frame);
    }
  }
}

}  // namespace warpline
