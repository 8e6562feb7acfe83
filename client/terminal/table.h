// Rows of text in aligned columns, as kubectl prints them.
#ifndef STRATA_CLIENT_TERMINAL_TABLE_H_
#define STRATA_CLIENT_TERMINAL_TABLE_H_

#include <string>
#include <vector>

namespace strata::client {

// Two spaces between columns, none at the ends of lines. Widths count characters of UTF-8; escape
// sequences (colours) count nothing. Rows may be shorter than the heading.
std::string FormatTable(const std::vector<std::string>& heading,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace strata::client

#endif  // STRATA_CLIENT_TERMINAL_TABLE_H_
