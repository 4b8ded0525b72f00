// The letters of an Einsum of two operands, and orders of axes by them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "smelt/shape.h"

namespace smelt::fuse {

struct EinsumTerms {
  std::string a, b, y;
};

/// The terms of "a,b->y" as they are written, without blanks; nothing for another form.
inline std::optional<EinsumTerms> einsum_terms(std::string equation) {
  std::erase(equation, ' ');
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return {};
  return EinsumTerms{equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1), equation.substr(arrow + 2)};
}

inline bool has(const std::string& term, char letter) { return term.find(letter) != std::string::npos; }

/// Whether the term is letters, each once.
inline bool is_letters(std::string term) {
  std::sort(term.begin(), term.end());
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !term.empty() && std::all_of(term.begin(), term.end(), is_letter) &&
         std::adjacent_find(term.begin(), term.end()) == term.end();
}

/// Where the letters of `to` stand in `from`.
inline std::vector<int64_t> letter_order(const std::string& from, const std::string& to) {
  std::vector<int64_t> perm;
  for (char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return perm;
}

inline SymShape permuted(const SymShape& shape, const std::vector<int64_t>& perm) {
  SymShape turned;
  for (int64_t axis : perm) turned.push_back(shape[static_cast<size_t>(axis)]);
  return turned;
}

}  // namespace smelt::fuse
