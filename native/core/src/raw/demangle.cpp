// Reads names that the Itanium C++ ABI mangles, https://itanium-cxx-abi.github.io/cxx-abi/abi.html.
//
// It writes them as NVIDIA's tools do, so that a kernel has one name in every recording:
// "const T1 *" for parameters that depend on template arguments, "(int)4" for values,
// "[lambda(float) (instance 1)]" and "<unnamed>". Template parameters are not resolved.
#include "raw/demangle.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace warpline {

namespace {

constexpr int kMaxNameDepth = 200;
constexpr std::size_t kMaxText = 65535;

// Thrown for what is no mangled name, is of a kind that no kernel has, or unfolds beyond reason.
struct Unreadable {};

// A type in two halves: what declares it stands between them, as in "void (*" and ")(int)".
struct Type {
  std::string left;
  std::string right;
  bool is_wrapped = false;  // a function or an array: a pointer to it needs parentheses

  std::string whole() const { return left + right; }
};

// A name, or the part of one that has been read.
struct Name {
  std::string text;
  std::string base;         // its last component without template arguments
  std::string suffix;       // qualifiers of a member function
  bool is_template = false;  // it ends in template arguments
  bool has_return = true;    // were it a template function; not so constructors and conversions
};

struct Substitution {
  Type type;
  std::string base;
};

struct Operator {
  std::string_view code;
  std::string_view symbol;
  int operands;  // in expressions; 0: other forms
};

constexpr Operator kOperators[] = {
    {"aN", "&=", 2},  {"aS", "=", 2},   {"aa", "&&", 2}, {"ad", "&", 1},   {"an", "&", 2},
    {"cl", "()", 0},  {"cm", ",", 2},   {"co", "~", 1},  {"dV", "/=", 2},  {"da", "delete[]", 0},
    {"de", "*", 1},   {"dl", "delete", 0}, {"dv", "/", 2}, {"eO", "^=", 2}, {"eo", "^", 2},
    {"eq", "==", 2},  {"ge", ">=", 2},  {"gt", ">", 2},  {"ix", "[]", 0},  {"lS", "<<=", 2},
    {"le", "<=", 2},  {"ls", "<<", 2},  {"lt", "<", 2},  {"mI", "-=", 2},  {"mL", "*=", 2},
    {"mi", "-", 2},   {"ml", "*", 2},   {"mm", "--", 1}, {"na", "new[]", 0}, {"ne", "!=", 2},
    {"ng", "-", 1},   {"nt", "!", 1},   {"nw", "new", 0}, {"oR", "|=", 2}, {"oo", "||", 2},
    {"or", "|", 2},   {"pL", "+=", 2},  {"pl", "+", 2},  {"pm", "->*", 2}, {"pp", "++", 1},
    {"ps", "+", 1},   {"pt", "->", 0},  {"qu", "?", 3},  {"rM", "%=", 2},  {"rS", ">>=", 2},
    {"rm", "%", 2},   {"rs", ">>", 2},  {"ss", "<=>", 2},
};

struct Builtin {
  std::string_view code;
  std::string_view text;
};

constexpr Builtin kBuiltins[] = {
    {"v", "void"},          {"w", "wchar_t"},        {"b", "bool"},
    {"c", "char"},          {"a", "signed char"},    {"h", "unsigned char"},
    {"s", "short"},         {"t", "unsigned short"}, {"i", "int"},
    {"j", "unsigned int"},  {"l", "long"},           {"m", "unsigned long"},
    {"x", "long long"},     {"y", "unsigned long long"}, {"n", "__int128"},
    {"o", "unsigned __int128"}, {"f", "float"},      {"d", "double"},
    {"e", "long double"},   {"g", "__float128"},     {"z", "..."},
    {"Dn", "std::nullptr_t"}, {"Di", "char32_t"},    {"Ds", "char16_t"},
    {"Du", "char8_t"},      {"Dh", "__half"},        {"Da", "auto"},
    {"Dc", "decltype(auto)"}, {"DF16_", "_Float16"}, {"DF16b", "__bf16"},
};

constexpr Builtin kStandard[] = {
    {"St", "std"},           {"Sa", "std::allocator"}, {"Sb", "std::basic_string"},
    {"Ss", "std::string"},   {"Si", "std::istream"},   {"So", "std::ostream"},
    {"Sd", "std::iostream"},
};

class NameReader {
 public:
  explicit NameReader(std::string_view mangled)
      : rest_(mangled), budget_(mangled.size() * 256 + kMaxText) {}

  KernelName read() {
    expect("_Z");
    std::string base;
    std::string full = encoding(&base);
    if (!rest_.empty()) throw Unreadable();
    return {std::move(full), std::move(base)};
  }

 private:
  class Deeper {
   public:
    explicit Deeper(NameReader &reader) : reader_(reader) {
      if (++reader_.depth_ > kMaxNameDepth) throw Unreadable();
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper &) = delete;
    Deeper &operator=(const Deeper &) = delete;

   private:
    NameReader &reader_;
  };

  char peek(std::size_t ahead = 0) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }
  bool is_next(std::string_view text) const { return rest_.starts_with(text); }
  bool accept(std::string_view text) {
    if (!is_next(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) throw Unreadable();
  }
  bool is_digit() const { return peek() >= '0' && peek() <= '9'; }

  // Counts what is written: texts that substitutions double and double again have an end.
  std::string within(std::string text) {
    if (text.size() > kMaxText || text.size() > budget_) throw Unreadable();
    budget_ -= text.size();
    return text;
  }

  std::size_t number() {
    if (!is_digit()) throw Unreadable();
    std::size_t value = 0;
    while (is_digit()) {
      value = value * 10 + static_cast<std::size_t>(peek() - '0');
      if (value > kMaxText) throw Unreadable();
      rest_.remove_prefix(1);
    }
    return value;
  }

  // A number before "_", counted so that none is 0 and "0" is 1.
  std::size_t counted() {
    const std::size_t value = is_digit() ? number() + 1 : 0;
    expect("_");
    return value;
  }

  void remember(Type type, std::string base) {
    within(type.whole());
    substitutions_.push_back({std::move(type), std::move(base)});
  }

  // The function's own name goes to `base`, if that is asked for. As an argument of a template a
  // function is its name alone.
  std::string encoding(std::string *base, bool is_argument = false) {
    const Deeper deeper(*this);
    Name found = name();
    if (base != nullptr) *base = found.base;
    if (rest_.empty() || peek() == 'E' || peek() == '.') return within(found.text + found.suffix);
    std::string before;
    std::string after;
    if (found.is_template && found.has_return) {
      const Type result = type();
      before = result.left + (result.left.ends_with('*') ? "" : " ");
      after = result.right;
    }
    const std::string taken = parameters();
    if (is_argument) return within(found.text);
    return within(before + found.text + taken + found.suffix + after);
  }

  // "(int, const T1 *)" of a bare function type, up to its end.
  std::string parameters() {
    std::string text;
    if (is_next("v") && (peek(1) == 'E' || peek(1) == '\0' || peek(1) == '.')) {
      accept("v");
      return "()";
    }
    while (!rest_.empty() && peek() != 'E' && peek() != '.') {
      if (!text.empty()) text += ", ";
      text += type().whole();
      text = within(std::move(text));
    }
    return "(" + text + ")";
  }

  Name name() {
    const Deeper deeper(*this);
    if (peek() == 'N') return nested_name();
    if (peek() == 'Z') return local_name();
    Name found;
    if (peek() == 'S' && peek(1) != 't') {
      const Substitution &known = substitution();
      found.text = known.type.whole();
      found.base = known.base;
      if (peek() == 'I') append_arguments(found);
      return found;
    }
    const bool is_std = accept("St");
    found = unqualified(found);
    if (is_std) found.text = "std::" + found.text;
    if (peek() == 'I') {
      remember({found.text, {}, false}, found.base);
      append_arguments(found);
    }
    return found;
  }

  void append_arguments(Name &found) {
    found.text = within(found.text + arguments());
    found.is_template = true;
  }

  Name nested_name() {
    expect("N");
    std::string suffix;
    bool is_volatile = false;
    bool is_const = false;
    while (accept("r")) {
    }
    is_volatile = accept("V");
    is_const = accept("K");
    if (is_const) suffix += " const";
    if (is_volatile) suffix += " volatile";
    if (accept("R")) suffix += " &";
    if (accept("O")) suffix += " &&";
    Name found;
    bool is_known = false;  // what has been read is a substitution already, or needs none
    while (!accept("E")) {
      if (!found.text.empty() && !is_known) remember({found.text, {}, false}, found.base);
      is_known = false;
      if (peek() == 'I') {
        if (found.text.empty()) throw Unreadable();
        append_arguments(found);
        continue;
      }
      if (peek() == 'S' && found.text.empty()) {
        if (accept("St")) {
          found.text = found.base = "std";
        } else {
          const Substitution &known = substitution();
          found.text = known.type.whole();
          found.base = known.base;
        }
        is_known = true;
        continue;
      }
      if (peek() == 'T' && found.text.empty()) {
        found.text = found.base = parameter();
        continue;
      }
      if (is_next("DT") || is_next("Dt")) {
        found.text = found.base = decltype_text();
        continue;
      }
      if (accept("M")) continue;  // of a member's initializer
      Name part = unqualified(found);
      const std::string before = found.text.empty() ? "" : found.text + "::";
      found.text = within(before + part.text);
      found.base = std::move(part.base);
      found.is_template = false;
      found.has_return = part.has_return;
    }
    if (found.text.empty()) throw Unreadable();
    found.suffix = std::move(suffix);
    return found;
  }

  Name local_name() {
    expect("Z");
    std::string function = encoding(nullptr);
    expect("E");
    Name found;
    if (accept("s")) {
      discriminator();
      found.text = within(function + "::string literal");
      found.base = "string literal";
      return found;
    }
    if (accept("d")) counted();  // in a default argument
    Name entity = name();
    discriminator();
    entity.text = within(function + "::" + entity.text);
    return entity;
  }

  void discriminator() {
    if (!accept("_")) return;
    if (accept("_")) {
      number();
      expect("_");
    } else {
      number();
    }
  }

  Name unqualified(const Name &of) {
    Name found;
    accept("L");  // of internal linkage
    if (is_digit()) {
      found.text = source_name();
      found.base = found.text;
    } else if (is_next("Ul")) {
      found.text = found.base = lambda();
      found.has_return = true;
    } else if (accept("Ut")) {
      const std::string instance = std::to_string(counted() + 1);
      found.text = found.base = "[unnamed type (instance " + instance + ")]";
    } else if (peek() == 'C' || (peek() == 'D' && peek(1) >= '0' && peek(1) <= '5')) {
      const bool is_destructor = peek() == 'D';
      rest_.remove_prefix(1);
      accept("I");
      if (!is_digit() || of.base.empty()) throw Unreadable();
      rest_.remove_prefix(1);
      found.text = found.base = (is_destructor ? "~" : "") + of.base;
      found.has_return = false;
    } else {
      operator_name(found);
    }
    while (accept("B")) found.text += "[abi:" + source_name() + "]";
    return found;
  }

  void operator_name(Name &found) {
    if (accept("cv")) {
      found.text = found.base = "operator " + type().whole();
      found.has_return = false;
      return;
    }
    if (accept("li")) {
      found.text = found.base = "operator \"\" " + source_name();
      return;
    }
    found.text = found.base = "operator " + std::string(find_operator().symbol);
  }

  const Operator &find_operator() {
    for (const Operator &known : kOperators) {
      if (accept(known.code)) return known;
    }
    throw Unreadable();
  }

  std::string source_name() {
    const std::size_t length = number();
    if (length == 0 || length > rest_.size()) throw Unreadable();
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (text.starts_with("_GLOBAL__N_")) return "<unnamed>";
    return std::string(text);
  }

  std::string lambda() {
    expect("Ul");
    std::string text = "[lambda" + parameters();
    expect("E");
    return within(text + " (instance " + std::to_string(counted() + 1) + ")]");
  }

  std::string arguments() {
    const Deeper deeper(*this);
    expect("I");
    std::string text;
    add_arguments(text);
    return within("<" + text + ">");
  }

  void add_arguments(std::string &text) {
    while (!accept("E")) {
      if (accept("J")) {
        const Deeper deeper(*this);
        add_arguments(text);
        continue;
      }
      std::string argument = this->argument();
      if (!text.empty()) text += ", ";
      text = within(text + argument);
    }
  }

  std::string argument() {
    if (peek() == 'L') return literal();
    if (!accept("X")) return type().whole();
    std::string text = expression();
    expect("E");
    return text;
  }

  std::string literal() {
    const Deeper deeper(*this);
    expect("L");
    if (accept("_Z")) {
      std::string text = encoding(nullptr, true);
      expect("E");
      return text;
    }
    std::string text = "(" + type().whole() + ")";
    if (accept("n")) text += "-";
    while (peek() != 'E') {
      if (rest_.empty()) throw Unreadable();
      text += peek();
      rest_.remove_prefix(1);
    }
    expect("E");
    if (text.ends_with(')')) text += "0";  // a null pointer
    return within(std::move(text));
  }

  std::string expression() {
    const Deeper deeper(*this);
    if (peek() == 'L') return literal();
    if (peek() == 'T') return parameter();
    if (accept("st")) return "sizeof(" + type().whole() + ")";
    if (accept("sz")) return "sizeof(" + expression() + ")";
    if (accept("sZ")) return "sizeof...(" + expression() + ")";
    if (accept("sp")) return expression() + "...";
    if (accept("cv")) {
      const std::string target = type().whole();
      return within("(" + target + ")" + expression());
    }
    if (accept("sr")) return scoped();
    if (is_next("fp") || is_next("fL")) return function_parameter();
    if (accept("dt")) return member(".");
    if (accept("pt")) return member("->");
    if (accept("il")) return "{" + list() + "}";
    if (accept("tl")) {
      const std::string made = type().whole();
      return within(made + "{" + list() + "}");
    }
    if (accept("cl")) return call();
    if (is_digit() || is_next("on")) return simple_name();
    const Operator &found = find_operator();
    const std::string symbol(found.symbol);
    if (found.operands == 1) return within(symbol + expression());
    if (found.operands == 2) {
      std::string left = expression();
      return within("(" + left + " " + symbol + " " + expression() + ")");
    }
    if (found.operands != 3) throw Unreadable();
    std::string condition = expression();
    std::string first = expression();
    return within("(" + condition + " ? " + first + " : " + expression() + ")");
  }

  std::string call() {
    const std::string called = expression();
    return within(called + "(" + list() + ")");
  }

  std::string list() {
    std::string text;
    while (!accept("E")) {
      if (!text.empty()) text += ", ";
      text = within(text + expression());
    }
    return text;
  }

  std::string member(std::string_view symbol) {
    const std::string owner = expression();
    return within(owner + std::string(symbol) + expression());
  }

  std::string simple_name() {
    accept("on");
    std::string text = unqualified({}).text;
    return peek() == 'I' ? within(text + arguments()) : text;
  }

  // A name in a scope that depends on template arguments.
  std::string scoped() {
    std::string text;
    const bool is_nested = accept("N");
    const bool is_plain = !is_nested && is_digit();
    if (!is_plain) text = type().whole() + "::";
    while ((is_plain || is_nested) && !accept("E")) text = within(text + simple_name() + "::");
    return within(text + simple_name());
  }

  std::string function_parameter() {
    rest_.remove_prefix(1);
    if (accept("L")) number();
    expect("p");
    if (accept("T")) return "this";
    while (accept("V") || accept("K")) {
    }
    return "{param " + std::to_string(counted() + 1) + "}";
  }

  std::string decltype_text() {
    rest_.remove_prefix(2);
    std::string text = "decltype(" + expression() + ")";
    expect("E");
    return within(std::move(text));
  }

  std::string parameter() {
    expect("T");
    return "T" + std::to_string(counted() + 1);
  }

  const Substitution &substitution() {
    for (const Builtin &known : kStandard) {
      if (!accept(known.code)) continue;
      const std::string_view text = known.text;
      standard_ = {{std::string(text), {}, false}, std::string(text.substr(text.rfind(':') + 1))};
      return standard_;
    }
    expect("S");
    std::size_t place = 0;
    if (!accept("_")) {
      do {
        const char digit = peek();
        const bool is_letter = digit >= 'A' && digit <= 'Z';
        if (!is_digit() && !is_letter) throw Unreadable();
        place = place * 36 + static_cast<std::size_t>(is_letter ? digit - 'A' + 10 : digit - '0');
        if (place > kMaxText) throw Unreadable();
        rest_.remove_prefix(1);
      } while (!accept("_"));
      ++place;
    }
    if (place >= substitutions_.size()) throw Unreadable();
    return substitutions_[place];
  }

  Type type() {
    const Deeper deeper(*this);
    for (const Builtin &known : kBuiltins) {
      if (accept(known.code)) return {std::string(known.text), {}, false};
    }
    switch (peek()) {
      case 'r':
      case 'V':
      case 'K':
        return qualified();
      case 'P':
        return pointer("*");
      case 'R':
        return pointer("&");
      case 'O':
        return pointer("&&");
      case 'F':
        return function();
      case 'A':
        return array();
      case 'M':
        return member_pointer();
      case 'T':
        return parameter_type();
      case 'D':
        return compound();
      case 'u':
        rest_.remove_prefix(1);
        return known({source_name(), {}, false}, {});
      case 'S':
        return substituted();
      default:
        return class_type();
    }
  }

  Type known(Type type, std::string base) {
    remember(type, std::move(base));
    return type;
  }

  Type class_type() {
    Name found = name();
    return known({found.text + found.suffix, {}, false}, found.base);
  }

  // A substitution, or a name that begins with one.
  Type substituted() {
    if (is_next("St")) return class_type();
    const Substitution found = substitution();
    if (peek() != 'I') return found.type;
    return known({within(found.type.whole() + arguments()), {}, false}, found.base);
  }

  Type parameter_type() {
    Type found = known({parameter(), {}, false}, {});
    if (peek() != 'I') return found;
    return known({within(found.left + arguments()), {}, false}, {});
  }

  Type qualified() {
    accept("r");
    const bool is_volatile = accept("V");
    const bool is_const = accept("K");
    Type found = type();
    std::string words = is_const ? "const" : "";
    if (is_volatile) words += words.empty() ? "volatile" : " volatile";
    if (words.empty()) return known(std::move(found), {});
    if (found.is_wrapped) {
      found.right += " " + words;
    } else if (found.left.ends_with('*') || found.left.ends_with('&')) {
      found.left += words;
    } else {
      found.left = words + " " + found.left;
    }
    return known(std::move(found), {});
  }

  Type pointer(std::string_view symbol) {
    rest_.remove_prefix(1);
    Type found = type();
    if (found.is_wrapped) {
      found.left += " (";
      found.right = ")" + found.right;
      found.is_wrapped = false;
    } else if (!found.left.ends_with('*') && !found.left.ends_with('&') &&
               !found.left.ends_with('(')) {
      found.left += " ";
    }
    found.left += symbol;
    return known(std::move(found), {});
  }

  Type function() {
    expect("F");
    accept("Y");
    Type result = type();
    Type found{result.left, parameters() + result.right, true};
    accept("R");
    accept("O");
    expect("E");
    return known(std::move(found), {});
  }

  Type array() {
    expect("A");
    std::string size;
    if (is_digit()) {
      size = std::to_string(number());
    } else if (peek() != '_') {
      size = expression();
    }
    expect("_");
    Type of = type();
    return known({of.left, "[" + size + "]" + of.right, true}, {});
  }

  Type member_pointer() {
    expect("M");
    const std::string owner = type().whole();
    Type found = type();
    if (found.is_wrapped) {
      found.left += " (" + owner + "::*";
      found.right = ")" + found.right;
      found.is_wrapped = false;
    } else {
      found.left += " " + owner + "::*";
    }
    return known(std::move(found), {});
  }

  Type compound() {
    if (is_next("DT") || is_next("Dt")) return known({decltype_text(), {}, false}, {});
    if (accept("Dp")) return known({type().whole() + "...", {}, false}, {});
    if (accept("Do")) return type();  // noexcept
    throw Unreadable();
  }

  std::string_view rest_;
  std::size_t budget_;
  int depth_ = 0;
  std::vector<Substitution> substitutions_;
  Substitution standard_;
};

}  // namespace

KernelName demangle_kernel(std::string_view mangled) {
  if (mangled.starts_with("_Z")) {
    try {
      return NameReader(mangled).read();
    } catch (const Unreadable &) {  // as it is, then
    }
  }
  return {std::string(mangled), std::string(mangled)};
}

}  // namespace warpline
