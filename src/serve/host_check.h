// Protection from DNS rebinding: a page of some other site can have its own name point to 127.0.0.1, and its scripts
// then reach a server that listens there, as if they were its own pages'. What they cannot change is the Host header
// that the browser sends, which has that site's name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Whether an address to listen on lets this machine alone in: localhost, 127.x.x.x, ::1.
bool is_loopback(std::string_view host);

class HostCheck {
 public:
  /// `bound` is the address listened on. Only where it is a loopback address, or names are given, is anything checked.
  HostCheck(const std::string& bound, std::vector<std::string> allowed);

  /// Whether a request with this Host header (a name or an address, with or without a port) may be answered: it names
  /// this machine (localhost, 127.0.0.1, [::1]), the address bound or an allowed name.
  bool allows(std::string_view host) const;

 private:
  bool checks_;
  std::vector<std::string> names_;
};

}  // namespace espalier
