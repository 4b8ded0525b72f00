#include "inspect/ptx.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "inspect/ptx_instruction.h"

namespace smelt::inspect {
namespace {

/// The text without comments, which become blanks; lines stay.
std::string without_comments(std::string_view text) {
  std::string plain(text);
  for (size_t i = 0; i + 1 < plain.size();) {
    if (plain[i] == '"') {
      i = std::min(plain.find('"', i + 1), plain.size() - 1) + 1;
    } else if (plain[i] == '/' && plain[i + 1] == '/') {
      for (; i < plain.size() && plain[i] != '\n'; ++i) plain[i] = ' ';
    } else if (plain[i] == '/' && plain[i + 1] == '*') {
      const size_t end = std::min(plain.find("*/", i + 2), plain.size() - 2) + 2;
      for (; i < end; ++i)
        if (plain[i] != '\n') plain[i] = ' ';
    } else {
      ++i;
    }
  }
  return plain;
}

constexpr size_t longest_path = 1000;  // each of a file's lines may name a source file

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(without_comments(text)) {
    for (const std::string_view line : words_of(text_, "\n")) {
      const auto words = words_of(line, ptx_blanks);
      if (words.size() > 2 && words[0] == ".file") {
        const size_t open = line.find('"'), close = line.rfind('"');
        if (open < close)
          files_[leading_number(words[1])] = std::string(line.substr(open + 1, std::min(close - open - 1, longest_path)));
      }
    }
  }

  Image read() {
    while (skip_blanks(), at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '{' || c == '}') {
        ++at_;
        c == '{' ? open() : close();
      } else if (c == ';' || c == ')' || c == ',') {
        ++at_;
      } else if (c == '.') {
        directive();
      } else {
        statement();
      }
    }
    if (depth_ > 0)
      fail("not whole PTX: it ends at line {} inside {}", line(),
           in_kernel_ ? "the kernel '" + image_.kernels.back().entry + "'" : "a block");
    if (image_.arch.empty()) fail("not whole PTX: there is no .target");
    for (Kernel& k : image_.kernels) k.arch = image_.arch;
    return std::move(image_);
  }

 private:
  size_t line() const {
    return 1 + static_cast<size_t>(
                   std::count(text_.begin(), text_.begin() + static_cast<int64_t>(std::min(at_, text_.size())), '\n'));
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(ptx_blanks, at_), text_.size()); }
  Kernel& kernel() { return image_.kernels.back(); }

  void open() {
    if (depth_++ == 0 && pending_) {
      pending_ = false;
      in_kernel_ = true;
      code_ = CodeBuilder("PTX");
    }
  }
  void close() {
    if (depth_ == 0) fail("not whole PTX: line {} closes what was never opened", line());
    if (--depth_ > 0 || !in_kernel_) return;
    in_kernel_ = false;
    kernel().code = code_.finish();
  }

  /// The text to the end of a statement, which is passed over.
  std::string_view up_to(char end) {
    const size_t found = text_.find(end, at_);
    if (found == text_.npos) fail("not whole PTX: the statement that begins at line {} has no end", line());
    const std::string_view part = std::string_view(text_).substr(at_, found - at_);
    at_ = found + 1;
    return trimmed(part);
  }
  std::string_view rest_of_line() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view part = std::string_view(text_).substr(at_, end - at_);
    at_ = end;
    return trimmed(part);
  }

  void directive() {
    const std::string_view word =
        std::string_view(text_).substr(at_, std::min(text_.find_first_of(" \t\r\n;{(", at_), text_.size()) - at_);
    if (word == ".version" || word == ".address_size" || word == ".file") {
      rest_of_line();
    } else if (word == ".target") {
      const auto words = words_of(rest_of_line(), " \t\r,");
      if (words.size() > 1) image_.arch = std::string(words[1]);
    } else if (word == ".loc") {
      const auto words = words_of(rest_of_line(), " \t\r,");
      if (words.size() < 3) fail("not whole PTX: line {}: .loc without a line", line());
      const auto file = files_.find(leading_number(words[1]));
      code_.at(file == files_.end() ? "" : file->second,
               static_cast<int>(std::clamp<int64_t>(leading_number(words[2]), 0, INT32_MAX)));
    } else if (word == ".maxntid" || word == ".reqntid" || word == ".minnctapersm" || word == ".maxnreg" || word == ".noreturn" ||
               word == ".maxnctapersm" || word == ".explicitcluster" || word == ".reqnctapercluster" ||
               word == ".maxclusterrank" || word == ".blocksareclusters" || word == ".abi_preserve" ||
               word == ".abi_preserve_control") {
      attribute(word);
    } else if (word == ".section") {
      up_to('{');
      up_to('}');
    } else {
      declaration();
    }
  }

  void attribute(std::string_view word) {
    // Attributes may share a line with what follows: numbers and commas are theirs.
    at_ += word.size();
    const size_t end = std::min(text_.find_first_not_of(" \t\r\n,0123456789", at_), text_.size());
    if ((word == ".maxntid" || word == ".reqntid") && pending_) {
      int64_t threads = 1;
      for (const std::string_view n : words_of(std::string_view(text_).substr(at_, end - at_), " \t\r\n,"))
        threads = std::min<int64_t>(threads * std::clamp<int64_t>(leading_number(n), 0, 1 << 20), 1 << 20);
      (word == ".maxntid" ? kernel().most_threads : kernel().required_threads) = static_cast<int>(threads);
    }
    at_ = end;
  }

  /// .visible .entry NAME(parameters), .func, .reg, .shared, .local, .global, …
  void declaration() {
    const size_t end = text_.find_first_of(";({", at_);
    if (end == text_.npos) fail("not whole PTX: the declaration that begins at line {} has no end", line());
    const auto words = words_of(std::string_view(text_).substr(at_, end - at_), ptx_blanks);
    const auto entry = std::ranges::find(words, ".entry");
    if (entry != words.end()) {
      if (depth_ > 0 || std::next(entry) == words.end())
        fail("not whole PTX: line {}: a kernel without a name, or inside another", line());
      image_.kernels.push_back({.entry = std::string(*std::next(entry)), .static_shared = 0, .stack = 0});
      pending_ = true;
      at_ = end;
      if (text_[at_] != '(') return;
      ++at_;
      for (const std::string_view parameter : words_of(up_to(')'), ",")) add_parameter(parameter);
      return;
    }
    if (std::ranges::find(words, ".func") != words.end()) {
      pending_ = false;
      at_ = end;
      if (text_[at_] == '(') up_to(')');
      while (skip_blanks(), at_ < text_.size() && text_[at_] != '{' && text_[at_] != ';') {
        if (text_[at_] == '(')
          up_to(')');
        else
          ++at_;
      }
      return;
    }
    const std::string_view text = up_to(';');
    if (!in_kernel_) return;
    if (text.starts_with(".reg")) {
      // .reg .f32 %f<22>; the first of them is never used
      const size_t open = text.find('<');
      const int64_t count =
          open == text.npos ? static_cast<int64_t>(words_of(text, ",").size()) : leading_number(text.substr(open + 1)) - 1;
      if (words.size() > 1)
        kernel().declared[std::string(words[1].substr(1))] += static_cast<int>(std::clamp<int64_t>(count, 0, 1 << 24));
    } else if (text.starts_with(".shared") || text.starts_with(".local")) {
      auto& bytes = text.starts_with(".shared") ? kernel().static_shared : kernel().stack;
      bytes = std::min<int64_t>(bytes.value_or(0) + size_of(words_of(text, ptx_blanks)), int64_t{1} << 40);
    }
  }

  /// Bytes of ".align 4 .b8 name[1024]".
  static int64_t size_of(const std::vector<std::string_view>& words) {
    int64_t unit = 0;
    for (const std::string_view w : words)
      if (w.starts_with('.') && bytes_of_type(w.substr(1)) > 0) unit = bytes_of_type(w.substr(1));
    if (words.empty() || unit == 0) return 0;
    int64_t count = 1;
    for (size_t at = words.back().find('['); at != std::string_view::npos; at = words.back().find('[', at + 1))
      count = std::min<int64_t>(count * std::clamp<int64_t>(leading_number(words.back().substr(at + 1)), 0, int64_t{1} << 31),
                                int64_t{1} << 31);
    return unit * count;
  }

  void add_parameter(std::string_view text) {
    const auto words = words_of(text, ptx_blanks);
    if (words.empty() || words[0] != ".param") return;
    ++kernel().parameters;
    const int64_t bytes = std::clamp<int64_t>(size_of(words), 0, 1 << 20);
    const int64_t align = std::clamp<int64_t>(bytes, 1, 8);
    kernel().parameter_bytes = (kernel().parameter_bytes + align - 1) / align * align + bytes;
  }

  void statement() {
    const size_t end = text_.find_first_of(":;", at_);
    if (end == text_.npos) fail("not whole PTX: the statement that begins at line {} has no end", line());
    if (text_[end] == ':' && text_.find_first_of(" \t", at_) > end && (end + 1 >= text_.size() || text_[end + 1] != ':')) {
      at_ = end + 1;  // a label
      return;
    }
    std::string_view text = up_to(';');
    if (depth_ == 0)
      fail("not PTX: line {}: '{}' is outside of every kernel", line(), text.substr(0, std::min<size_t>(text.find('\n'), 40)));
    if (text.starts_with('@')) text = trimmed(text.substr(std::min(text.find_first_of(ptx_blanks), text.size())));
    if (in_kernel_ && !text.empty()) add_instruction(text, code_);
  }

  std::string text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool pending_ = false, in_kernel_ = false;  // between a kernel's name and its body; inside of the body
  CodeBuilder code_{"PTX"};
  std::map<int64_t, std::string> files_;
  Image image_{"PTX", "", {}};
};

}  // namespace

bool is_ptx(std::string_view text) {
  // Comments come first, as a rule.
  const std::string head = without_comments(text.substr(0, 65536));
  return trimmed(head).starts_with(".version");
}

Image read_ptx(std::string_view text) {
  if (!is_ptx(text)) fail("no PTX: it does not begin with .version");
  Image image = Reader(text).read();
  if (image.kernels.empty()) fail("the PTX holds no kernel (.entry)");
  for (const Kernel& k : image.kernels)
    if (!k.code) fail("not whole PTX: the kernel '{}' has no body", k.entry);
  return image;
}

}  // namespace smelt::inspect
