/*
 * training/format/shape.h -- the required forms of JSON values, as tables.
 *
 * A shape is data: kinds of values, bounds, members of objects. An object with a member that its shape lacks is refused, so
 * nothing unknown is ever signed or believed.
 */
#pragma once

#include "base/json.h"

enum run_shape_kind {
    SHAPE_TEXT,    /* `least` to `most` bytes; `fits` may demand more */
    SHAPE_EXACT,   /* the text `text` */
    SHAPE_INTEGER, /* `least` to `most` */
    SHAPE_FLAG,
    SHAPE_LIST,   /* `least` to `most` values of the shape `element` */
    SHAPE_OBJECT, /* the members `members` */
    SHAPE_MAP     /* an object of `least` to `most` members of any name that `fits`, each of the shape `element` */
};

struct run_shape;
/** A member of an object that other members exclude. All pointers are views: of the object, and of tables. */
struct run_shape_clash {
    const char *member, *key;     /* key: of a member that is a map, the name that is excluded; NULL: the whole member */
    const struct run_shape *rule; /* has the form that the member then must have (`must`) */
};

struct run_shape_member;
struct run_shape {
    enum run_shape_kind kind;
    int64_t least, most;
    const char *text;
    bool (*fits)(const char *text);
    const struct run_shape *element, *first; /* first: of a list, the shape of its first value, if that is another one; or NULL */
    const struct run_shape_member *members;
    size_t member_count;
    bool (*clash)(const json_t *value,
                  struct run_shape_clash *clash_out); /* of an object; NULL: no member excludes another one */
    const char *sorted_by; /* of a list: its values strictly rise, objects by this member; "": texts; NULL: any order */
    const char *must;      /* the required form, for messages */
};
struct run_shape_member {
    const char *name;
    const struct run_shape *shape;
    bool may_be_absent;
};

/** Where a value does not have its shape. All pointers are views: of the shapes, and of the value. */
#define RUN_SHAPE_STEPS_MAX 8 /* no shape is deeper */
struct run_shape_fault {
    size_t depth;
    struct run_shape_step {
        const char *key; /* of a member; NULL: the element `index` of a list */
        size_t index;
    } steps[RUN_SHAPE_STEPS_MAX];  /* from the whole value to the value that is wrong */
    const struct run_shape *shape; /* the shape that the value does not have; of a missing member: the member's shape */
    const json_t *value;           /* that is wrong */
    const char *missing, *unknown; /* a member of the value; or NULL */
};

/** `name` is for the message: "pool: 1 to 63 letters ...". ERROR_INVALID. */
RESULT run_shape_check(const json_t *value, const struct run_shape *shape, const char *name, struct error *err);
/** The same for a draft: any member may be absent, and lists may have any order. */
RESULT run_shape_check_draft(const json_t *value, const struct run_shape *shape, const char *name, struct error *err);

/** As run_shape_check(), but lists may have any order; on a failure *fault says where. */
RESULT run_shape_locate(const json_t *value, const struct run_shape *shape, const char *name, struct run_shape_fault *fault,
                        struct error *err);

#define SHAPE_MEMBERS(rows) .members = (rows), .member_count = sizeof(rows) / sizeof((rows)[0])
