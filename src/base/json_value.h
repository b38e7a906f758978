// nlohmann's values, whole: for the .cc that touches them (base/json.h names them without their weight). Their members
// are compiled once, in base/json_value.cc. Each of ninety files used to compile them again, which was a third of its
// time, and half of it under sanitizers.
#pragma once
#include <nlohmann/json.hpp>  // IWYU pragma: export

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
