/*
 * client/yaml.h -- reads the part of YAML that all readers understand alike, as JSON, with the line of each value.
 *
 * One document of mappings, lists and scalars. Refused: anchors, aliases and tags; a second document; a name that is there twice; fractions; and
 * plain words that readers of YAML 1.1 and 1.2 take for different things, such as `no`, `010`, `1,5`, `.` and `12:30`. Quotes make a text of each of
 * them. Refused, too: a comment right behind a quote or a bracket; a block that ends the file, without a line feed; U+0085,
 * U+2028, U+2029, a CR without LF, and U+FEFF but at the beginning. They end a line for some readers only.
 */
#pragma once

#include "base/json.h"

/**
 * Reads at most `maximum` bytes of UTF-8, JSON_DEPTH_MAX levels deep. `name` is that of the file: each message begins with it and the line, and
 * says the way out. `*lines_out` is for yaml_line() and so on. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT yaml_read(struct bytes text, size_t maximum, const char *name, json_t **value_out, json_t **lines_out, struct error *err);

/** The line of a value, or of its name in a mapping: from 1; 0 if `lines` is NULL. */
unsigned yaml_line(const json_t *lines);
/** The lines of a member, or of an element of a list; NULL if there is none. They live as long as `lines`. */
const json_t *yaml_member(const json_t *lines, const char *name);
const json_t *yaml_element(const json_t *lines, size_t index);
