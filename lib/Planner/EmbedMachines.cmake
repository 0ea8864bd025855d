# cmake -DFILES=... -DOUTPUT=... -P: writes {"name", R"json(text)json"}, for each file.
set(table "")
list(SORT FILES)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(APPEND table "{\"${name}\", R\"json(${text})json\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${table}")
