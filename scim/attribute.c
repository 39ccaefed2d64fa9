#include "scim/attribute.h"

#include <string.h>
#include <strings.h>

#define ENTERPRISE_URN "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

static const struct {
    const char *name;
    enum scim_attribute attribute;
} names[] = {{"id", SCIM_ID},
             {"externalId", SCIM_EXTERNAL_ID},
             {"userName", SCIM_USER_NAME},
             {"displayName", SCIM_DISPLAY_NAME},
             {"active", SCIM_ACTIVE},
             {"members", SCIM_MEMBERS},
             {"schemas", SCIM_READ_ONLY},
             {"meta", SCIM_READ_ONLY},
             {"groups", SCIM_READ_ONLY},
             {"name", SCIM_NOT_KEPT},
             {"nickName", SCIM_NOT_KEPT},
             {"profileUrl", SCIM_NOT_KEPT},
             {"title", SCIM_NOT_KEPT},
             {"userType", SCIM_NOT_KEPT},
             {"preferredLanguage", SCIM_NOT_KEPT},
             {"locale", SCIM_NOT_KEPT},
             {"timezone", SCIM_NOT_KEPT},
             {"password", SCIM_NOT_KEPT},
             {"emails", SCIM_NOT_KEPT},
             {"phoneNumbers", SCIM_NOT_KEPT},
             {"ims", SCIM_NOT_KEPT},
             {"photos", SCIM_NOT_KEPT},
             {"addresses", SCIM_NOT_KEPT},
             {"entitlements", SCIM_NOT_KEPT},
             {"roles", SCIM_NOT_KEPT},
             {"x509Certificates", SCIM_NOT_KEPT}};

static const char *const types[] = {"invalidFilter", "tooMany",  "uniqueness",   "mutability", "invalidSyntax",
                                    "invalidPath",   "noTarget", "invalidValue", "invalidVers"};

bool scim_name_is(struct bytes name, const char *wanted)
{
    return name.length == strlen(wanted) && strncasecmp((const char *)name.data, wanted, name.length) == 0;
}

/* Cuts a URN and its colon off. */
static bool cut(struct bytes *path, const char *urn)
{
    const size_t length = strlen(urn);

    if (path->length <= length || strncasecmp((const char *)path->data, urn, length) != 0 || path->data[length] != ':')
        return false;
    *path = (struct bytes){path->data + length + 1, path->length - length - 1};
    return true;
}

static bool find_name(struct bytes name, enum scim_attribute *attribute_out)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!scim_name_is(name, names[i].name)) continue;
        *attribute_out = names[i].attribute;
        return true;
    }
    return false;
}

bool scim_attribute_find(struct bytes path, enum scim_attribute *attribute_out, struct bytes *sub_out)
{
    *sub_out = (struct bytes){0};
    if (scim_name_is(path, ENTERPRISE_URN) || cut(&path, ENTERPRISE_URN)) {
        *attribute_out = SCIM_NOT_KEPT;
        return true;
    }
    if (!cut(&path, SCIM_USER_URN)) (void)cut(&path, SCIM_GROUP_URN);
    const uint8_t *dot = path.length == 0 ? NULL : memchr(path.data, '.', path.length);
    const size_t length = dot == NULL ? path.length : (size_t)(dot - path.data);
    if (dot != NULL) *sub_out = (struct bytes){dot + 1, path.length - length - 1};
    return find_name((struct bytes){path.data, length}, attribute_out);
}

struct result scim_member(const json_t *object, const char *name, const json_t **value_out, struct error *err)
{
    const json_t *found = NULL;
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        if (strcasecmp(key, name) != 0) continue;
        if (found != NULL) return failure(err, ERROR_INVALID, "invalidSyntax: %s is there twice", name);
        found = value;
    }
    *value_out = found;
    return SUCCESS;
}

const char *scim_error_type(const char *message, const char **sentence_out)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t length = strlen(types[i]);
        if (strncmp(message, types[i], length) != 0 || strncmp(message + length, ": ", 2) != 0) continue;
        *sentence_out = message + length + 2;
        return types[i];
    }
    *sentence_out = message;
    return NULL;
}
