#include "tests/support/unit.h"

#include <string.h>

#include "base/text.h"
#include "registry/names/reference.h"

#define NINE      "a23456789"
#define NAME_63   NINE NINE NINE NINE NINE NINE NINE
#define NAME_99   NAME_63 NINE NINE NINE NINE
#define PATH_200  NAME_99 NAME_99 "ab"
#define SEGMENTS8 "/a/a/a/a/a/a/a/a"

static const struct name_row {
    const char *name, *text;
    const char *path; /* NULL: refused */
} name_rows[] = {
    {"three segments", "acme/models/digits", "digits"},
    {"more segments", "acme/models/vision/digits/v2", "vision/digits/v2"},
    {"single letters", "a/b/c", "c"},
    {"digits", "0/1/2", "2"},
    {"a dot", "acme/models/a.b", "a.b"},
    {"an underscore", "acme/models/a_b", "a_b"},
    {"two underscores", "acme/models/a__b", "a__b"},
    {"many dashes", "acme/models/a----b", "a----b"},
    {"separators in turn", "acme/models/a.b_c-d__e", "a.b_c-d__e"},
    {"words of the interface", "acme/blobs/uploads/manifests/tags/list", "uploads/manifests/tags/list"},
    {"the longest organisation and project", NAME_63 "/" NAME_63 "/x", "x"},
    {"the longest path", "a/b/" PATH_200, PATH_200},
    {"32 segments", "a/a/a" SEGMENTS8 SEGMENTS8 SEGMENTS8 "/a/a/a/a/a", "a" SEGMENTS8 SEGMENTS8 SEGMENTS8 "/a/a/a/a/a"},
    {"33 segments", "a/a/a" SEGMENTS8 SEGMENTS8 SEGMENTS8 "/a/a/a/a/a/a", NULL},
    {"nothing", "", NULL},
    {"one segment", "acme", NULL},
    {"two segments", "acme/models", NULL},
    {"a slash at the end", "acme/models/digits/", NULL},
    {"a slash at the start", "/acme/models/digits", NULL},
    {"an empty segment", "acme//digits", NULL},
    {"an empty segment inside", "acme/models//digits", NULL},
    {"only slashes", "///", NULL},
    {"an upper-case letter", "acme/models/Digits", NULL},
    {"two dots", "acme/models/a..b", NULL},
    {"three underscores", "acme/models/a___b", NULL},
    {"a dot and a dash", "acme/models/a.-b", NULL},
    {"a separator at the start", "acme/models/-a", NULL},
    {"a separator at the end", "acme/models/a_", NULL},
    {"dashes at the end", "acme/models/a--", NULL},
    {"the folder above", "acme/models/../digits", NULL},
    {"a blank", "acme/models/a b", NULL},
    {"a percent sign", "acme/models/a%2fb", NULL},
    {"another alphabet", "acme/models/\xd8\xb3", NULL},
    {"a colon", "acme/models/a:b", NULL},
    {"two dashes in the project", "acme/mod--els/digits", NULL},
    {"two underscores in the organisation", "ac__me/models/digits", NULL},
    {"an organisation of 64", "a" NAME_63 "/b/c", NULL},
    {"a project of 64", "b/a" NAME_63 "/c", NULL},
    {"a path of 201", "a/b/" PATH_200 "c", NULL},
    {"256 bytes in all", NAME_63 "/" NAME_63 "/" NAME_99 NINE NINE NINE "ab", NULL},
};

static void splits_names(void **state)
{
    const struct name_row *row = *state;
    struct repository_name name = {0};
    struct error err = {0};

    assert_int_equal(repository_name_split(bytes_of_text(row->text), &name, &err).ok, row->path != NULL);
    if (row->path == NULL) {
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_null(name.organisation.data);
        return;
    }
    assert_true(bytes_equal(name.path, bytes_of_text(row->path)));
    assert_int_equal(name.organisation.length + name.project.length + name.path.length + 2, strlen(row->text));
    assert_true(namespace_name_is_valid(name.organisation) && namespace_name_is_valid(name.project));
}

static const struct tag_row {
    const char *name, *text;
    bool valid;
} tag_rows[] = {
    {"a word", "latest", true},
    {"a version", "v1.2.3-rc.1", true},
    {"upper case", "Release_1", true},
    {"an underscore first", "_x", true},
    {"a digit first", "2026.11", true},
    {"128 letters", NAME_63 NAME_63 "ab", true},
    {"the fallback of a digest", "sha256-" NAME_63 "a", true},
    {"129 letters", NAME_63 NAME_63 "abc", false},
    {"nothing", "", false},
    {"a dot first", ".hidden", false},
    {"a dash first", "-rf", false},
    {"a colon", "sha256:abc", false},
    {"a slash", "a/b", false},
    {"a plus sign", "1.0+build", false},
    {"a blank", "a b", false},
    {"a line feed", "a\n", false},
    {"another alphabet", "\xd8\xb3", false},
};

static void checks_tags(void **state)
{
    const struct tag_row *row = *state;

    assert_int_equal(tag_is_valid(bytes_of_text(row->text)), row->valid);
}

#define UPLOAD "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"
#define SECRET "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct referrers_row {
    const char *name, *digest, *tag;
} referrers_rows[] = {
    {"sha256", "sha256:" HEX64, "sha256-" HEX64},
    {"sha512 is cut", "sha512:" HEX64 HEX64, "sha512-" HEX64},
    {"a long algorithm is cut", "abcdefghijklmnopqrstuvwxyz0123456789:1", "abcdefghijklmnopqrstuvwxyz012345-1"},
};

static void names_referrers_tags(void **state)
{
    const struct referrers_row *row = *state;
    char tag[TAG_MAX + 1];

    referrers_tag(row->digest, tag);
    assert_string_equal(tag, row->tag);
    assert_true(tag_is_valid(bytes_of_text(tag)));
}

static const struct location_row {
    const char *name, *text;
    bool valid;
} location_rows[] = {
    {"as it is given out", UPLOAD "." SECRET, true},
    {"the id alone", UPLOAD, false},
    {"the id and a dot", UPLOAD ".", false},
    {"another separator", UPLOAD "-" SECRET, false},
    {"a secret that is too short", UPLOAD ".AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg", false},
    {"a secret that is too long", UPLOAD "." SECRET "A", false},
    {"set trailing bits", UPLOAD ".AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9", false},
    {"a foreign letter", UPLOAD ".AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+", false},
    {"an upper-case id", "5F0C8F0E-93A1-4C1A-8A4E-0D8F6D1F2B30." SECRET, false},
    {"nothing", "", false},
};

static void reads_upload_locations(void **state)
{
    const struct location_row *row = *state;
    struct upload_location location = {0};
    char again[UPLOAD_LOCATION_SIZE];

    assert_int_equal(upload_location_parse(bytes_of_text(row->text), &location), row->valid);
    if (!row->valid) {
        assert_true(uuid_is_nil(&location.upload));
        return;
    }
    for (unsigned i = 0; i < UPLOAD_SECRET_SIZE; i++) assert_int_equal(location.secret[i], i);
    upload_location_format(&location, again);
    assert_string_equal(again, row->text);
}

int main(void)
{
    return RUN_TABLE(name_rows, splits_names) + RUN_TABLE(tag_rows, checks_tags) +
           RUN_TABLE(referrers_rows, names_referrers_tags) + RUN_TABLE(location_rows, reads_upload_locations);
}
