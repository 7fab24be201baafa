#include "elf/line_files.h"

#include <algorithm>
#include <filesystem>

namespace warpline {

namespace {

constexpr std::size_t kMostNames = 1U << 18;  // of a unit
constexpr uint64_t kPath = 1, kDirectory = 2;
constexpr uint64_t kLongUnit = 0xffffffff;
constexpr uint64_t kLongestUnit = uint64_t{1} << 30;
constexpr uint64_t kLeastUnit = 8;

// How a number or a text is written (DW_FORM_*).
enum : uint64_t {
  kFormBlock2 = 0x03,
  kFormBlock4 = 0x04,
  kFormData2 = 0x05,
  kFormData4 = 0x06,
  kFormData8 = 0x07,
  kFormText = 0x08,
  kFormBlock = 0x09,
  kFormBlock1 = 0x0a,
  kFormData1 = 0x0b,
  kFormSigned = 0x0d,
  kFormTextAt = 0x0e,
  kFormUnsigned = 0x0f,
  kFormData16 = 0x1e,
  kFormLineTextAt = 0x1f,
};

struct Name {
  std::string text;
  uint64_t directory = 0;
};

struct Part {
  uint64_t meaning;
  uint64_t form;
};

std::string joined(const std::string &directory, const std::string &name) {
  const bool is_whole = directory.empty() || name.empty() || name.front() == '/';
  return is_whole ? name : directory + "/" + name;
}

// "src/../include/./model.h" and "include/model.h" are one file.
std::string plain(const std::string &path) {
  return path.empty() ? path : std::filesystem::path(path).lexically_normal().string();
}

class NameReader {
 public:
  NameReader(const LineUnit &unit, NameSections &sections)
      : unit_(unit), bytes_(unit.names), sections_(sections) {}

  // Before the fifth version: texts up to an empty one. The first directory is not among them, nor is
  // there a file of the number 0.
  std::vector<std::string> read_texts() {
    std::vector<std::string> directories{""};
    while (bytes_.is_sound() && directories.size() < kMostNames) {
      std::string text = bytes_.read_text();
      if (text.empty()) break;
      directories.push_back(std::move(text));
    }
    std::vector<std::string> files{""};
    while (bytes_.is_sound() && files.size() < kMostNames) {
      const std::string text = bytes_.read_text();
      if (text.empty()) break;
      const uint64_t directory = bytes_.read_unsigned();
      bytes_.read_unsigned();  // when it was changed
      bytes_.read_unsigned();  // its length
      files.push_back(plain(directory < directories.size() ? joined(directories[directory], text) : text));
    }
    return files;
  }

  // The fifth: lists that say how their entries are written. The first directory is that of the
  // compilation, which others may be relative to.
  std::vector<std::string> read_lists() {
    std::vector<Name> directories = read_list();
    std::vector<std::string> files;
    for (const Name &file : read_list()) {
      std::string path = file.text;
      if (file.directory < directories.size()) path = joined(directories[file.directory].text, path);
      if (!directories.empty()) path = joined(directories[0].text, path);
      files.push_back(plain(file.text.empty() ? std::string() : path));
    }
    return files;
  }

 private:
  std::vector<Name> read_list() {
    std::vector<Part> parts(bytes_.read<uint8_t>());
    for (Part &part : parts) part = {bytes_.read_unsigned(), bytes_.read_unsigned()};
    const uint64_t count = bytes_.read_unsigned();
    std::vector<Name> names;
    if (parts.empty() || count > kMostNames) return names;
    for (uint64_t i = 0; i < count && bytes_.is_sound(); ++i) {
      Name name;
      for (const Part &part : parts) read_part(part, name);
      if (bytes_.is_sound()) names.push_back(std::move(name));
    }
    return names;
  }

  void read_part(const Part &part, Name &name) {
    if (part.meaning == kPath) {
      name.text = read_path(part.form);
    } else if (part.meaning == kDirectory) {
      name.directory = read_number(part.form);
    } else {
      read_number(part.form);
    }
  }

  std::string read_path(uint64_t form) {
    switch (form) {
      case kFormText: return bytes_.read_text();
      case kFormTextAt: return sections_.texts.text(bytes_.read_offset(unit_.is_long));
      case kFormLineTextAt: return sections_.line_texts.text(bytes_.read_offset(unit_.is_long));
      default: read_number(form); return {};
    }
  }

  uint64_t read_number(uint64_t form) {
    switch (form) {
      case kFormData1: return bytes_.read<uint8_t>();
      case kFormData2: return bytes_.read<uint16_t>();
      case kFormData4: return bytes_.read<uint32_t>();
      case kFormData8: return bytes_.read<uint64_t>();
      case kFormUnsigned: return bytes_.read_unsigned();
      case kFormSigned: return static_cast<uint64_t>(bytes_.read_signed());
      case kFormData16: bytes_.skip(16); return 0;
      case kFormBlock1: bytes_.skip(bytes_.read<uint8_t>()); return 0;
      case kFormBlock2: bytes_.skip(bytes_.read<uint16_t>()); return 0;
      case kFormBlock4: bytes_.skip(bytes_.read<uint32_t>()); return 0;
      case kFormBlock: bytes_.skip(bytes_.read_unsigned()); return 0;
      case kFormText: bytes_.skip_text(); return 0;
      case kFormTextAt:
      case kFormLineTextAt: return bytes_.read_offset(unit_.is_long);
      default: bytes_.skip(~uint64_t{0}); return 0;  // how long it is, is not known
    }
  }

  const LineUnit &unit_;
  DwarfBytes bytes_;
  NameSections &sections_;
};

}  // namespace

PlacedLineUnit line_unit_at(SectionContent &table, uint64_t place) {
  if (place >= table.bytes()) return {};
  const uint64_t left = table.bytes() - place;
  const uint8_t *head = table.at(place, std::min<uint64_t>(left, 12));
  if (head == nullptr) return {};
  DwarfBytes length(head, head + std::min<uint64_t>(left, 12));
  uint64_t bytes = length.read<uint32_t>();
  const bool is_long = bytes == kLongUnit;
  if (is_long) bytes = length.read<uint64_t>();
  const uint64_t head_bytes = is_long ? 12 : 4;
  const bool is_sound = length.is_sound() && bytes >= kLeastUnit && bytes <= kLongestUnit;
  if (!is_sound) return {};
  const uint64_t there = std::min(bytes, left - head_bytes);
  const uint8_t *content = table.at(place + head_bytes, there);
  if (content == nullptr) return {};
  return {LineUnit::read(DwarfBytes(content, content + there), is_long), head_bytes + bytes};
}

std::vector<std::string> line_files(const LineUnit &unit, NameSections &sections) {
  NameReader names(unit, sections);
  return unit.version < 5 ? names.read_texts() : names.read_lists();
}

}  // namespace warpline
