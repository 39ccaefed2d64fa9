/*
 * documents/format/kind.h -- the kinds of signed documents, from documents/format/kinds.def.
 */
#pragma once

#include "base/bytes.h"

enum document_kind {
#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) constant,
#include "documents/format/kinds.def"
#undef KIND
    DOCUMENT_KIND_COUNT
};

struct document_kind_row {
    const char *name, *type;
    uint8_t number;
    size_t bytes_max;                /* of a payload */
    unsigned signers;                /* the number of keys that must have signed */
    unsigned withdrawers;            /* the same for a withdrawal; 0: the kind can't be withdrawn */
    const char *action, *withdrawal; /* the event's action when it comes into force; when it is withdrawn */
};
const struct document_kind_row *document_kind(enum document_kind kind);

bool document_kind_of_type(const char *type, enum document_kind *kind_out);
