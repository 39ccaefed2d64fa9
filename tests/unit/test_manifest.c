#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "registry/manifest.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define S512                                                           \
    "sha512:"                                                          \
    "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd" \
    "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define D(type, digest) "{\"mediaType\":\"" type "\",\"digest\":\"" digest "\",\"size\":3}"
#define TAR             "application/vnd.oci.image.layer.v1.tar"
#define CONFIG          "\"config\":" D("application/vnd.oci.image.config.v1+json", A)
#define HEAD            "{\"schemaVersion\":2,"
#define TYPED(type)     HEAD "\"mediaType\":\"" type "\","
#define IMAGE           TYPED(MEDIA_TYPE_IMAGE) CONFIG
#define MODEL           "application/vnd.cncf.model.manifest.v1+json"
#define LAYERS          ",\"layers\":[" D(TAR, B) "]"

#define T_IMAGE        "\"mediaType\":\"" MEDIA_TYPE_IMAGE "\","
#define OF_ABC         "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define T              "\"mediaType\":\"" TAR "\","
#define LAYER(members) IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":1," members "}]}"

static const struct row {
    const char *name, *body, *content_type;
    const char *media_type; /* NULL: refused */
    const char *artifact_type, *subject;
    const char *references; /* a letter of each digest, upper case if it is required, "m" before a manifest */
} rows[] = {
    {"an image", IMAGE LAYERS "}", MEDIA_TYPE_IMAGE, MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"no Content-Type", IMAGE LAYERS "}", "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"no mediaType", HEAD CONFIG LAYERS "}", MEDIA_TYPE_IMAGE, MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "",
     "AB"},
    {"neither", HEAD CONFIG LAYERS "}", "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a charset in the Content-Type", IMAGE LAYERS "}", MEDIA_TYPE_IMAGE "; charset=utf-8", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"Docker's schema 2",
     TYPED(MEDIA_TYPE_DOCKER) "\"config\":" D("application/vnd.docker.container.image.v1+json", A) LAYERS "}", MEDIA_TYPE_DOCKER,
     MEDIA_TYPE_DOCKER, "application/vnd.docker.container.image.v1+json", "", "AB"},
    {"a layer's type with a parameter", IMAGE ",\"layers\":[" D("text/plain; charset=utf-8", B) "]}", MEDIA_TYPE_IMAGE,
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a layer's type with a quote", IMAGE ",\"layers\":[" D("text/plain; a=\\\"b", B) "]}", MEDIA_TYPE_IMAGE, NULL, "", "", ""},
    {"an artifact", TYPED(MEDIA_TYPE_IMAGE) "\"artifactType\":\"" MODEL "\"," CONFIG LAYERS "}", MEDIA_TYPE_IMAGE,
     MEDIA_TYPE_IMAGE, MODEL, "", "AB"},
    {"an empty artifactType is none", TYPED(MEDIA_TYPE_IMAGE) "\"artifactType\":\"\"," CONFIG LAYERS "}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a subject", IMAGE LAYERS ",\"subject\":" D(MEDIA_TYPE_IMAGE, C) "}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", C, "AB"},
    {"no layers", IMAGE ",\"layers\":[]}", "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "A"},
    {"the same layer twice", IMAGE ",\"layers\":[" D(TAR, B) "," D(TAR, B) "," D(TAR, A) "]}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"layers out of order", IMAGE ",\"layers\":[" D(TAR, C) "," D(TAR, B) "]}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "ABC"},
    {"a layer that may not be distributed",
     IMAGE ",\"layers\":[" D("application/vnd.oci.image.layer.nondistributable.v1.tar", B) "]}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "Ab"},
    {"Docker's foreign layer", IMAGE ",\"layers\":[" D("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", B) "]}", "",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "Ab"},
    {"a layer with urls", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":0,\"urls\":[\"https://example.org/b\"]}]}", "",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "Ab"},
    {"a layer with no urls", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":0,\"urls\":[]}]}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"elsewhere and here",
     IMAGE ",\"layers\":[" D("application/vnd.oci.image.layer.nondistributable.v1.tar", B) "," D(TAR, B) "]}", "",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"members that are null", LAYER("\"urls\":null,\"annotations\":null,\"data\":null,\"platform\":null,\"artifactType\":null"),
     "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"all members",
     LAYER("\"urls\":[],\"annotations\":{\"a\":\"b\"},\"artifactType\":\"" MODEL
           "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"\",\"os.features\":[\"x\"],\"y\":1}"),
     "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"embedded content", IMAGE ",\"layers\":[{" T "\"digest\":\"" OF_ABC "\",\"size\":3,\"data\":\"YWJj\"}]}", "",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"sha512", IMAGE ",\"layers\":[" D(TAR, S512) "]}", "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "",
     "AD"},
    {"unknown members", IMAGE LAYERS ",\"x\":{\"y\":[1.5,null]},\"annotations\":{\"a\":\"b\"}}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a number past 63 bits that nobody reads", IMAGE LAYERS ",\"x\":{\"y\":[9223372036854775808,-1e999]}}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"annotations in any case", IMAGE LAYERS ",\"annotations\":{\"Layers\":\"b\",\"layers\":\"c\",\"LAYERS\":\"d\"}}", "",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"an index", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[" D(MEDIA_TYPE_IMAGE, A) "," D(MEDIA_TYPE_INDEX, B) "]}",
     MEDIA_TYPE_INDEX, MEDIA_TYPE_INDEX, "", "", "mAmB"},
    {"an index by its members", HEAD "\"manifests\":[]}", "", MEDIA_TYPE_INDEX, "", "", ""},
    {"an index that is an artifact", TYPED(MEDIA_TYPE_INDEX) "\"artifactType\":\"" MODEL "\",\"manifests\":[]}", "",
     MEDIA_TYPE_INDEX, MODEL, "", ""},
    {"an index with a subject", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"subject\":" D(MEDIA_TYPE_IMAGE, C) "}", "",
     MEDIA_TYPE_INDEX, "", C, ""},
    {"Docker's list", TYPED(MEDIA_TYPE_DOCKER_LIST) "\"manifests\":[" D(MEDIA_TYPE_DOCKER, A) "]}", MEDIA_TYPE_DOCKER_LIST,
     MEDIA_TYPE_DOCKER_LIST, "", "", "mA"},

    {"a Content-Type in capitals", IMAGE LAYERS "}", "Application/VND.OCI.image.manifest.v1+JSON; charset=UTF-8",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a Content-Type in capitals, no mediaType", HEAD CONFIG LAYERS "}", "APPLICATION/VND.OCI.IMAGE.MANIFEST.V1+JSON",
     MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"optional members that are null",
     HEAD "\"mediaType\":null,\"artifactType\":null,\"subject\":null,\"annotations\":null,\"manifests\":null,"
          "\"fsLayers\":null,\"history\":null,\"signatures\":null," CONFIG LAYERS "}",
     "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"an index whose other members are null", HEAD "\"config\":null,\"layers\":null,\"history\":null,\"manifests\":[]}", "",
     MEDIA_TYPE_INDEX, "", "", ""},
    {"annotations that are null beside a subject", IMAGE LAYERS ",\"annotations\":null,\"subject\":" D(MEDIA_TYPE_IMAGE, C) "}",
     "", MEDIA_TYPE_IMAGE, "application/vnd.oci.image.config.v1+json", C, "AB"},
    {"the same manifest twice", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[" D(MEDIA_TYPE_IMAGE, A) "," D(MEDIA_TYPE_IMAGE, A) "]}",
     "", MEDIA_TYPE_INDEX, "", "", "mA"},

    {"a mediaType in capitals", TYPED("APPLICATION/VND.OCI.IMAGE.MANIFEST.V1+JSON") CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"a config without a mediaType", TYPED(MEDIA_TYPE_IMAGE) "\"config\":{\"digest\":\"" A "\",\"size\":1}" LAYERS "}", "", NULL,
     "", "", ""},
    {"a layer without a mediaType", IMAGE ",\"layers\":[{\"digest\":\"" B "\",\"size\":1}]}", "", NULL, "", "", ""},
    {"a layer whose mediaType is empty", IMAGE ",\"layers\":[" D("", B) "]}", "", NULL, "", "", ""},
    {"a layer whose mediaType is null", IMAGE ",\"layers\":[{\"mediaType\":null,\"digest\":\"" B "\",\"size\":1}]}", "", NULL, "",
     "", ""},
    {"a subject without a mediaType", IMAGE LAYERS ",\"subject\":{\"digest\":\"" C "\",\"size\":1}}", "", NULL, "", "", ""},
    {"a manifest of an index without a mediaType", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[{\"digest\":\"" A "\",\"size\":1}]}",
     "", NULL, "", "", ""},
    {"a manifest of an index that is no manifest", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[" D("application/vnd.x", A) "]}", "",
     NULL, "", "", ""},
    {"a manifest of two types", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[" D(MEDIA_TYPE_IMAGE, A) "," D(MEDIA_TYPE_DOCKER, A) "]}",
     "", NULL, "", "", ""},
    {"a platform without an os", LAYER("\"platform\":{\"architecture\":\"arm64\"}"), "", NULL, "", "", ""},
    {"a platform without an architecture", LAYER("\"platform\":{\"os\":\"linux\"}"), "", NULL, "", "", ""},
    {"a platform whose os is null", LAYER("\"platform\":{\"os\":null,\"architecture\":\"arm64\"}"), "", NULL, "", "", ""},
    {"an image with fsLayers", IMAGE LAYERS ",\"fsLayers\":[]}", "", NULL, "", "", ""},
    {"an image with a history", IMAGE LAYERS ",\"history\":[]}", "", NULL, "", "", ""},
    {"an image with signatures", IMAGE LAYERS ",\"signatures\":[]}", "", NULL, "", "", ""},
    {"an index with signatures", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"signatures\":[{\"header\":{}}]}", "", NULL, "", "",
     ""},
    {"Docker's type without a mediaType", HEAD CONFIG LAYERS "}", MEDIA_TYPE_DOCKER, NULL, "", "", ""},
    {"Docker's type with an empty mediaType", TYPED("") CONFIG LAYERS "}", MEDIA_TYPE_DOCKER, NULL, "", "", ""},
    {"Docker's type with a mediaType that is null", HEAD "\"mediaType\":null," CONFIG LAYERS "}", MEDIA_TYPE_DOCKER, NULL, "", "",
     ""},
    {"Docker's list without a mediaType", HEAD "\"manifests\":[]}", MEDIA_TYPE_DOCKER_LIST, NULL, "", "", ""},
    {"an empty mediaType", TYPED("") CONFIG LAYERS "}", MEDIA_TYPE_IMAGE, MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"Docker's mediaType and no Content-Type", TYPED(MEDIA_TYPE_DOCKER) CONFIG LAYERS "}", "", MEDIA_TYPE_DOCKER,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"a size of -0", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":-0}]}", "", NULL, "", "", ""},
    {"a size of -0 before a blank", IMAGE ",\"layers\":[{\"size\":-0 ," T "\"digest\":\"" B "\"}]}", "", NULL, "", "", ""},
    {"-0 that nobody reads", IMAGE LAYERS ",\"x\":[-0,-0.0,-0]}", "", MEDIA_TYPE_IMAGE,
     "application/vnd.oci.image.config.v1+json", "", "AB"},
    {"an annotation of -0", IMAGE LAYERS ",\"annotations\":{\"a\":-0}}", "", NULL, "", "", ""},
    {"an index with a config", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[]," CONFIG "}", "", NULL, "", "", ""},
    {"an index with layers", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"layers\":[]}", "", NULL, "", "", ""},
    {"an index with fsLayers", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"fsLayers\":[]}", "", NULL, "", "", ""},
    {"an index with a history", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"history\":{}}", "", NULL, "", "", ""},
    {"layers that are null", IMAGE ",\"layers\":null}", "", NULL, "", "", ""},
    {"mediaType and Content-Type disagree", IMAGE LAYERS "}", MEDIA_TYPE_DOCKER, NULL, "", "", ""},
    {"an image sent as an index", HEAD CONFIG LAYERS "}", MEDIA_TYPE_INDEX, NULL, "", "", ""},
    {"an unknown Content-Type", HEAD CONFIG LAYERS "}", "application/json", NULL, "", "", ""},
    {"an unknown mediaType", TYPED("application/vnd.oci.image.config.v1+json") CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"Docker's schema 1", "{\"schemaVersion\":1,\"fsLayers\":[]}", "", NULL, "", "", ""},
    {"no schemaVersion", "{" CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"schemaVersion as a text", "{\"schemaVersion\":\"2\"," CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"layers and manifests", IMAGE LAYERS ",\"manifests\":[]}", "", NULL, "", "", ""},
    {"no config", TYPED(MEDIA_TYPE_IMAGE) "\"layers\":[]}", "", NULL, "", "", ""},
    {"a config that is null", TYPED(MEDIA_TYPE_IMAGE) "\"config\":null,\"layers\":[]}", "", NULL, "", "", ""},
    {"layers missing", IMAGE "}", "", NULL, "", "", ""},
    {"layers that are an object", IMAGE ",\"layers\":{}}", "", NULL, "", "", ""},
    {"a layer that is a text", IMAGE ",\"layers\":[\"" B "\"]}", "", NULL, "", "", ""},
    {"a layer without a digest", IMAGE ",\"layers\":[{" T "\"size\":1}]}", "", NULL, "", "", ""},
    {"a layer without a size", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\"}]}", "", NULL, "", "", ""},
    {"a negative size", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":-1}]}", "", NULL, "", "", ""},
    {"a size with a fraction", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":1.0}]}", "", NULL, "", "", ""},
    {"a size beyond 63 bits", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":9223372036854775808}]}", "", NULL, "", "",
     ""},
    {"a size of fifty digits",
     IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":11111111112222222222333333333344444444445555555555}]}", "", NULL, "",
     "", ""},
    {"a size with an exponent", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":1e1}]}", "", NULL, "", "", ""},
    {"a schemaVersion past 63 bits", "{\"schemaVersion\":18446744073709551618," CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"a number that is none", IMAGE LAYERS ",\"x\":00000000009223372036854775808}", "", NULL, "", "", ""},
    {"two readers, two artifacts", IMAGE LAYERS ",\"Layers\":[" D(TAR, C) "]}", "", NULL, "", "", ""},
    {"an upper-case digest",
     IMAGE ",\"layers\":[{" T "\"digest\":\"sha256:"
           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
           "\",\"size\":1}]}",
     "", NULL, "", "", ""},
    {"a digest of another algorithm",
     IMAGE ",\"layers\":[{" T "\"digest\":\"md5:d41d8cd98f00b204e9800998ecf8427e\",\"size\":1}]}", "", NULL, "", "", ""},
    {"a subject that is a text", IMAGE LAYERS ",\"subject\":\"" C "\"}", "", NULL, "", "", ""},
    {"a subject without a digest", IMAGE LAYERS ",\"subject\":{" T "\"size\":1}}", "", NULL, "", "", ""},
    {"a mediaType that is a number", HEAD "\"mediaType\":2," CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"an artifactType with a blank", IMAGE LAYERS ",\"artifactType\":\"a b/c\"}", "", NULL, "", "", ""},
    {"an artifactType without a slash", IMAGE LAYERS ",\"artifactType\":\"model\"}", "", NULL, "", "", ""},
    {"a label that is none", IMAGE LAYERS ",\"annotations\":{\"sijil.label\":\"sensitive\"}}", "", NULL, "", "", ""},
    {"a label of another spelling",
     IMAGE LAYERS
     ",\"annotations\":{\"sijil.label\":\"{\\\"class\\\":\\\"open\\\",\\\"attached\\\":[],\\\"lineage\\\":\\\"attested\\\",\\\"pins\\\":[],\\\"subjects\\\":[]}\"}}",
     "", NULL, "", "", ""},
    {"a base without a project", IMAGE LAYERS ",\"annotations\":{\"sijil.base\":\"acme\"}}", "", NULL, "", "", ""},
    {"a base of no digest", IMAGE LAYERS ",\"annotations\":{\"sijil.base\":\"acme/models/a@sha256:1\"}}", "", NULL, "", "", ""},
    {"annotations that are a list", IMAGE LAYERS ",\"annotations\":[]}", "", NULL, "", "", ""},
    {"an annotation that is a number", IMAGE LAYERS ",\"annotations\":{\"a\":1}}", "", NULL, "", "", ""},
    {"urls that are a text", LAYER("\"urls\":\"x\""), "", NULL, "", "", ""},
    {"urls that are an object", LAYER("\"urls\":{}"), "", NULL, "", "", ""},
    {"a url that is a number", LAYER("\"urls\":[\"https://example.org/b\",1]"), "", NULL, "", "", ""},
    {"a platform that is a text", LAYER("\"platform\":\"x\""), "", NULL, "", "", ""},
    {"an os that is a number", LAYER("\"platform\":{\"os\":1}"), "", NULL, "", "", ""},
    {"features that are a text", LAYER("\"platform\":{\"os.features\":\"x\"}"), "", NULL, "", "", ""},
    {"an artifactType that is an object", LAYER("\"artifactType\":{}"), "", NULL, "", "", ""},
    {"a layer's annotation that is a number", LAYER("\"annotations\":{\"a\":1}"), "", NULL, "", "", ""},
    {"data that is a number", LAYER("\"data\":5"), "", NULL, "", "", ""},
    {"data that is no base64", IMAGE ",\"layers\":[{" T "\"digest\":\"" OF_ABC "\",\"size\":3,\"data\":\"YWJ\"}]}", "", NULL, "",
     "", ""},
    {"data of another size", IMAGE ",\"layers\":[{" T "\"digest\":\"" OF_ABC "\",\"size\":4,\"data\":\"YWJj\"}]}", "", NULL, "",
     "", ""},
    {"data that is something else", IMAGE ",\"layers\":[{" T "\"digest\":\"" OF_ABC "\",\"size\":3,\"data\":\"YWJk\"}]}", "",
     NULL, "", "", ""},
    {"an index's config that is a list", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],\"config\":[]}", "", NULL, "", "", ""},
    {"a layer of two sizes", IMAGE ",\"layers\":[{" T "\"digest\":\"" B "\",\"size\":1},{" T "\"digest\":\"" B "\",\"size\":2}]}",
     "", NULL, "", "", ""},
    {"a key twice", HEAD "\"schemaVersion\":2," CONFIG LAYERS "}", "", NULL, "", "", ""},
    {"an array", "[]", "", NULL, "", "", ""},
    {"a text", "\"x\"", "", NULL, "", "", ""},
    {"cut off", IMAGE ",\"layers\":[", "", NULL, "", "", ""},
    {"something after it", IMAGE LAYERS "} x", "", NULL, "", "", ""},
    {"nothing", "", MEDIA_TYPE_IMAGE, NULL, "", "", ""},
};

/* The references of a manifest, in the form of the rows. */
static void spell(const struct manifest *manifest, char *out)
{
    for (size_t i = 0; i < manifest->reference_count; i++) {
        const struct manifest_reference *reference = &manifest->references[i];
        if (reference->is_manifest) *out++ = 'm';
        *out++ = (char)(reference->digest[7] - (reference->is_required ? 'a' - 'A' : 0));
    }
    *out = '\0';
}

static void reads_manifests(void **state)
{
    const struct row *row = *state;
    OWNED(manifest) *manifest = NULL;
    struct error err = {0};
    char references[32];

    const bool ok = manifest_parse(bytes_of_text(row->body), bytes_of_text(row->content_type), &manifest, &err).ok;
    assert_int_equal(ok, row->media_type != NULL);
    if (!ok) {
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_null(manifest);
        return;
    }
    assert_string_equal(manifest->media_type, row->media_type);
    assert_string_equal(manifest->artifact_type, row->artifact_type);
    assert_string_equal(manifest->subject, row->subject);
    spell(manifest, references);
    assert_string_equal(references, row->references);
}

#define LABEL_TEXT "{\"attached\":[],\"class\":\"secret\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"health\"]}"

static void reads_the_label_that_a_manifest_states(void **state)
{
    OWNED_JSON json = json_loads(IMAGE LAYERS "}", 0, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(MANIFEST_SIZE_MAX);
    OWNED(manifest) *with = NULL, *without = NULL;
    struct error err = {0};

    (void)state;
    assert_true(manifest_parse(bytes_of_text(IMAGE LAYERS "}"), (struct bytes){0}, &without, &err).ok);
    assert_null(without->label);
    assert_int_equal(json_object_set_new(json, "annotations", json_pack("{s:s}", "sijil.label", LABEL_TEXT)), 0);
    assert_true(json_write_canonical(&text, json, &err).ok);
    assert_true(manifest_parse(buffer_bytes(&text), (struct bytes){0}, &with, &err).ok);
    assert_string_equal(with->label, LABEL_TEXT);
}

/* The repositories that it names, without their digests; as many as fit. */
static void keeps_the_bases(void **state)
{
    struct error err = {0};

    (void)state;
    for (int count = MANIFEST_BASES_MAX - 1; count <= MANIFEST_BASES_MAX; count++) {
        OWNED(manifest) *manifest = NULL;
        struct buffer OWNED_BUFFER text = BUFFER(4096);
        assert_true(buffer_add_text(&text, IMAGE LAYERS ",\"annotations\":{\"sijil.base\":\"acme/models/d@" C, &err).ok);
        for (int i = 0; i < count; i++) assert_true(buffer_add_text(&text, " a/b/c", &err).ok);
        assert_true(buffer_add_text(&text, "\"}}", &err).ok);
        const bool is_read = manifest_parse(buffer_bytes(&text), (struct bytes){0}, &manifest, &err).ok;
        assert_int_equal(is_read ? manifest->base_count : err.kind, is_read ? MANIFEST_BASES_MAX : ERROR_LIMIT);
        assert_int_equal(is_read, count < MANIFEST_BASES_MAX);
        if (is_read) assert_string_equal(manifest->bases[0], "acme/models/d");
    }
}

static void bodies_are_bounded(void **state)
{
    static uint8_t body[MANIFEST_SIZE_MAX + 1];
    struct manifest *manifest = NULL;
    struct error err = {0};
    const char *text = IMAGE LAYERS "}";

    (void)state;
    memset(body, ' ', sizeof body);
    memcpy(body, text, strlen(text));
    assert_true(manifest_parse((struct bytes){body, sizeof body - 1}, (struct bytes){0}, &manifest, &err).ok);
    manifest_free(manifest);
    manifest = NULL;
    assert_false(manifest_parse((struct bytes){body, sizeof body}, (struct bytes){0}, &manifest, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(manifest);
}

static void an_empty_body_is_called_empty(void **state)
{
    struct manifest *manifest = NULL;
    struct error err = {0};

    (void)state;
    assert_false(manifest_parse((struct bytes){0}, (struct bytes){0}, &manifest, &err).ok);
    assert_non_null(strstr(err.message, "is empty"));
}

static void descriptors_are_bounded(void **state)
{
    struct buffer OWNED_BUFFER body = BUFFER(MANIFEST_SIZE_MAX);
    struct manifest *manifest = NULL;
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_text(&body, HEAD CONFIG ",\"layers\":[0", &err).ok);
    for (size_t i = 1; i < MANIFEST_REFERENCES_MAX; i++) assert_true(buffer_add_text(&body, ",0", &err).ok);
    assert_true(buffer_add_text(&body, "]}", &err).ok);
    assert_false(manifest_parse(buffer_bytes(&body), (struct bytes){0}, &manifest, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

#define NAMES_OF_A_DESCRIPTOR "mediaType digest size urls annotations data artifactType platform"

/* The places where the specification has names. Each name gets a member of another spelling beside it. */
static const struct level {
    const char *name, *before, *after, *names;
} levels[] = {
    {"a manifest", IMAGE LAYERS ",", "}",
     "schemaVersion mediaType artifactType config layers manifests subject annotations fsLayers history signatures"},
    {"an index", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[],", "}",
     "schemaVersion mediaType artifactType config layers manifests subject annotations fsLayers history signatures"},
    {"a config", HEAD "\"layers\":[],\"config\":{" T "\"digest\":\"" A "\",\"size\":1,", "}}", NAMES_OF_A_DESCRIPTOR},
    {"a layer", IMAGE ",\"layers\":[" D(TAR, B) ",{" T "\"digest\":\"" C "\",\"size\":1,", "}]}", NAMES_OF_A_DESCRIPTOR},
    {"a subject", IMAGE LAYERS ",\"subject\":{" T "\"digest\":\"" A "\",\"size\":1,", "}}", NAMES_OF_A_DESCRIPTOR},
    {"a manifest of an index", TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[{" T_IMAGE "\"digest\":\"" A "\",\"size\":1,", "}]}",
     NAMES_OF_A_DESCRIPTOR},
    {"a platform",
     TYPED(MEDIA_TYPE_INDEX) "\"manifests\":[{" T_IMAGE "\"digest\":\"" A
                             "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\",",
     "}}]}", "architecture os os.version os.features variant features"},
};

/*
 * `name` with another letter at `at` that Go takes for the same: the other case, or a letter that folds to it. NULL: there is
 * none.
 */
static const char *otherwise(const char *name, size_t at)
{
    static char spelled[64];
    const char letter = name[at];
    const char *other = letter == 'k' ? "\u212a" : letter == 's' ? "\u017f" : NULL;
    const char swapped[2] = {(char)(letter ^ 0x20), '\0'};

    if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) return NULL;
    (void)snprintf(spelled, sizeof spelled, "%.*s%s%s", (int)at, name, other != NULL ? other : swapped, name + at + 1);
    return spelled;
}

static bool takes_name(const struct level *level, const char *name)
{
    OWNED(manifest) *manifest = NULL;
    struct error err = {0};
    char body[1024];

    (void)snprintf(body, sizeof body, "%s\"%s\":null%s", level->before, name, level->after);
    const bool ok = manifest_parse(bytes_of_text(body), (struct bytes){0}, &manifest, &err).ok;
    assert_true(ok || strstr(err.message, "is spelled") != NULL);
    return ok;
}

static void names_have_one_spelling(void **state)
{
    const struct level *level = *state;
    char names[256];

    assert_true(takes_name(level, "x-layers"));
    assert_true(takes_name(level, "lay"));
    assert_true(takes_name(level, "Layerss"));
    (void)snprintf(names, sizeof names, "%s", level->names);
    for (char *rest = NULL, *name = strtok_r(names, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest))
        for (size_t at = 0; name[at] != '\0'; at++)
            if (otherwise(name, at) != NULL) assert_false(takes_name(level, otherwise(name, at)));
}

static const struct type_row {
    const char *name, *text;
    bool known;
} type_rows[] = {
    {"an image's", MEDIA_TYPE_IMAGE, true},
    {"in capitals", "APPLICATION/VND.OCI.IMAGE.INDEX.V1+JSON", true},
    {"with a parameter", MEDIA_TYPE_INDEX " ; charset=utf-8", true},
    {"JSON", "application/json", false},
    {"nothing", "", false},
    {"only a parameter", ";q=1", false},
    {"longer than a known one", MEDIA_TYPE_IMAGE "x", false},
};

static void knows_media_types(void **state)
{
    const struct type_row *row = *state;

    assert_int_equal(manifest_media_type_is_known(bytes_of_text(row->text)), row->known);
}

static struct result parse_once(void *context, struct error *err)
{
    OWNED(manifest) *manifest = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(manifest, manifest_parse(bytes_of_text(IMAGE LAYERS "}"), (struct bytes){0}, &manifest, err));
    return SUCCESS;
}

static void lack_of_memory_is_said(void **state)
{
    (void)state;
    fail_each(parse_once, NULL, ERROR_NO_MEMORY, 10);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(reads_the_label_that_a_manifest_states),
        cmocka_unit_test(keeps_the_bases),
        cmocka_unit_test(bodies_are_bounded),
        cmocka_unit_test(descriptors_are_bounded),
        cmocka_unit_test(an_empty_body_is_called_empty),
        cmocka_unit_test(lack_of_memory_is_said),
    };

    return RUN_TABLE(rows, reads_manifests) + RUN_TABLE(levels, names_have_one_spelling) +
           RUN_TABLE(type_rows, knows_media_types) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
