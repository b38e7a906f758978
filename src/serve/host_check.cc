#include "serve/host_check.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

/// Lower case, without the port, a final dot and the brackets of an IPv6 address.
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else if (const size_t colon = host.find(':'); colon == host.rfind(':')) {  // two are an address without brackets
    host = host.substr(0, colon);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string name(host);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return name;
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string name = name_of(host);
  const bool digits = name.find_first_not_of("0123456789.") == std::string::npos;
  return name == "localhost" || name == "::1" || (name.starts_with("127.") && digits);
}

HostCheck::HostCheck(const std::string& bound, std::vector<std::string> allowed)
    : checks_(is_loopback(bound) || !allowed.empty()), names_(std::move(allowed)) {
  names_.insert(names_.end(), {"localhost", "127.0.0.1", "::1", bound});
  for (std::string& name : names_) name = name_of(name);
}

bool HostCheck::allows(std::string_view host) const {
  return !checks_ || std::ranges::find(names_, name_of(host)) != names_.end();
}

}  // namespace espalier
