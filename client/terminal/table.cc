#include "client/terminal/table.h"

#include <algorithm>

namespace strata::client {
namespace {

size_t WidthOf(const std::string& text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size());
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      ++width;
    }
  }
  return width;
}

}  // namespace

std::string FormatTable(const std::vector<std::string>& heading,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(heading.size(), 0);
  const auto measure = [&](const std::vector<std::string>& row) {
    for (size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
      widths[c] = std::max(widths[c], WidthOf(row[c]));
    }
  };
  measure(heading);
  for (const auto& row : rows) measure(row);
  std::string text;
  const auto print = [&](const std::vector<std::string>& row) {
    for (size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
      text += row[c];
      if (c + 1 < row.size()) text.append(widths[c] - WidthOf(row[c]) + 2, ' ');
    }
    text += "\n";
  };
  print(heading);
  for (const auto& row : rows) print(row);
  return text;
}

}  // namespace strata::client
