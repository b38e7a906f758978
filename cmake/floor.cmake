# esp_floor(NAME [LIBS ...]): src/NAME/*.cc without tests become part of the library; its *_test.cc one program
# NAME_test. Who may include whom is not enforced here but by tests/tidy_test.cc, which reads docs/ARCHITECTURE.md.
define_property(GLOBAL PROPERTY ESP_FLOORS)
define_property(GLOBAL PROPERTY ESP_LIBS)

function(esp_floor name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  set_property(GLOBAL APPEND PROPERTY ESP_LIBS ${ARG_LIBS})
  if(sources)
    add_library(espalier_${name} OBJECT ${sources})
    target_include_directories(espalier_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(espalier_${name} PUBLIC fmt::fmt nlohmann_json::nlohmann_json
      tomlplusplus::tomlplusplus simdjson::simdjson Threads::Threads ${ARG_LIBS})
    if(name STREQUAL "kernels")
      # Two targets, AVX2 and AVX3, instead of five; the rest of the binary stays plain x86-64 so that main can
      # say politely that AVX2 is needed.
      target_compile_definitions(espalier_${name} PRIVATE HWY_BASELINE_TARGETS=HWY_AVX2)
      # Products and sums fuse where a kernel says MulAdd, not where the compiler likes: whole vectors, tails and
      # ISAs then round alike.
      target_compile_options(espalier_${name} PRIVATE -ffp-contract=off)
    endif()
    set_property(GLOBAL APPEND PROPERTY ESP_FLOORS ${name})
  endif()
endfunction()

# esp_test(NAME SOURCES...): one GoogleTest program registered with CTest under the label of its folder.
function(esp_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE espalier GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    ESP_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ESP_BINARY="$<TARGET_FILE:espalier_cli>")
  # What is tested is optimised; the tests themselves compile in two thirds of the time at -O1, and
  # what they lose by it is seconds.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
endfunction()

# The one library under the binary: the objects of every floor together.
function(esp_library)
  get_property(floors GLOBAL PROPERTY ESP_FLOORS)
  get_property(libs GLOBAL PROPERTY ESP_LIBS)
  add_library(espalier STATIC)
  foreach(floor ${floors})
    target_sources(espalier PRIVATE $<TARGET_OBJECTS:espalier_${floor}>)
  endforeach()
  set_target_properties(espalier PROPERTIES LINKER_LANGUAGE CXX)
  add_library(espalier::espalier ALIAS espalier)
  target_include_directories(espalier PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:include/espalier>)
  list(REMOVE_DUPLICATES libs)
  target_link_libraries(espalier PUBLIC fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus
    simdjson::simdjson Threads::Threads ${libs})
  if(ESP_TESTS)
    find_package(GTest REQUIRED)
    enable_testing()
    foreach(floor ${floors})
      file(GLOB_RECURSE tests CONFIGURE_DEPENDS src/${floor}/*_test.cc)
      if(tests)
        esp_test(${floor}_test ${tests})
      endif()
    endforeach()
  endif()
endfunction()

# The binary: src/cli. All but main.cc is a library of its own, so that cli_test can link to it.
function(esp_program)
  file(GLOB sources CONFIGURE_DEPENDS src/cli/*.cc)
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  add_library(espalier_verbs STATIC ${sources})
  target_link_libraries(espalier_verbs PUBLIC espalier)
  target_compile_definitions(espalier_verbs PUBLIC ESP_VERSION="${PROJECT_VERSION}")
  add_executable(espalier_cli src/cli/main.cc)
  set_target_properties(espalier_cli PROPERTIES OUTPUT_NAME espalier)
  target_link_libraries(espalier_cli PRIVATE espalier_verbs)
  file(GLOB tests CONFIGURE_DEPENDS src/cli/*_test.cc)
  if(ESP_TESTS AND tests)
    esp_test(cli_test ${tests})
    target_link_libraries(cli_test PRIVATE espalier_verbs)
    add_dependencies(cli_test espalier_cli)
  endif()
endfunction()

# tests/X_test.cc cross folders, a program each; what is too long for one file is in tests/X/*.cc.
function(esp_cross_folder_tests)
  file(GLOB tests CONFIGURE_DEPENDS tests/*_test.cc)
  foreach(test ${tests})
    get_filename_component(name ${test} NAME_WE)
    string(REGEX REPLACE "_test$" "" folder ${name})
    file(GLOB parts CONFIGURE_DEPENDS tests/${folder}/*.cc)
    esp_test(${name} ${test} ${parts})
    target_include_directories(${name} PRIVATE tests)
  endforeach()
  # tests/e2e/X_test.sh drive the real program.
  file(GLOB scripts CONFIGURE_DEPENDS tests/e2e/*_test.sh)
  foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME e2e_${name} COMMAND ${script} $<TARGET_FILE:espalier_cli> ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
    set_tests_properties(e2e_${name} PROPERTIES TIMEOUT 1800)
  endforeach()
  esp_fuzz_targets()
endfunction()

# tests/fuzz/*_fuzz.cc: with libFuzzer programs to run by hand; otherwise each is a seeded smoke test, and the canary
# among them must fail.
function(esp_fuzz_targets)
  file(GLOB fuzzers CONFIGURE_DEPENDS tests/fuzz/*_fuzz.cc)
  foreach(fuzzer ${fuzzers})
    get_filename_component(name ${fuzzer} NAME_WE)
    if(ESP_LIBFUZZER)
      add_executable(${name} ${fuzzer} tests/fuzz/write_seeds.cc)
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    else()
      add_executable(${name} ${fuzzer} tests/fuzz/smoke_main.cc tests/fuzz/mutate.cc)
      add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 600)
    endif()
    target_include_directories(${name} PRIVATE tests/fuzz)
    target_link_libraries(${name} PRIVATE espalier)
  endforeach()
  if(TEST canary_fuzz)
    set_tests_properties(canary_fuzz PROPERTIES WILL_FAIL TRUE)
  endif()
endfunction()

function(esp_install)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  install(TARGETS espalier_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS espalier EXPORT espalier-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/espalier FILES_MATCHING PATTERN "*.h"
    PATTERN test_folder.h EXCLUDE PATTERN test_client.h EXCLUDE PATTERN op_case.h EXCLUDE PATTERN run_program.h EXCLUDE
    PATTERN tiny_model.h EXCLUDE)
  if(EXISTS ${PROJECT_SOURCE_DIR}/recipes)
    install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/espalier/recipes)
  endif()
  set(dir ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
  install(EXPORT espalier-targets NAMESPACE espalier:: DESTINATION ${dir})
  configure_package_config_file(cmake/espalier-config.cmake.in espalier-config.cmake INSTALL_DESTINATION ${dir})
  write_basic_package_version_file(espalier-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/espalier-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/espalier-config-version.cmake cmake/dependencies.cmake DESTINATION ${dir})
endfunction()
