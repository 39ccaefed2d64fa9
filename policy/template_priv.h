/* policy/template_priv.h -- the files of policy/templates, as the build puts them into the library. */
#pragma once

struct template_text {
    const char *regime, *text; /* "adgm"; JSON. The last row has NULL */
};
extern const struct template_text template_texts[];
