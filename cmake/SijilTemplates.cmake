# cmake -D "FILES=a.json;b.json" -D OUTPUT=templates.c -P SijilTemplates.cmake
# Writes the templates of policies into a C table, by their names.
set(texts "")
set(rows "")
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME_WE)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n    " bytes "${bytes}")
  string(APPEND texts "static const unsigned char template_${name}[] = {\n    ${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", (const char *)template_${name}},\n")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from policy/templates/. */\n#include \"policy/template_priv.h\"\n\n#include <stddef.h>\n\n${texts}
const struct template_text template_texts[] = {\n${rows}    {NULL, NULL},\n};\n")
