#include "documents/format/kind.h"

#include <assert.h>
#include <string.h>

static const struct document_kind_row rows[DOCUMENT_KIND_COUNT] = {
#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) \
    [constant] = {name, type, number, bytes, signers, withdrawers, action, withdrawal},
#include "documents/format/kinds.def"
#undef KIND
};

const struct document_kind_row *document_kind(enum document_kind kind)
{
    assert(kind < DOCUMENT_KIND_COUNT);
    return &rows[kind];
}

bool document_kind_of_type(const char *type, enum document_kind *kind_out)
{
    for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++)
        if (strcmp(rows[kind].type, type) == 0) {
            *kind_out = kind;
            return true;
        }
    return false;
}
