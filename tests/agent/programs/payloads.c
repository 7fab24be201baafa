// Attaches payloads to NVTX events in the way that its first argument names.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uchar.h>

#define FIELD(f) NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_##f
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static nvtxDomainHandle_t domain;

static uint64_t schema(uint64_t type, const char* name, const nvtxPayloadSchemaEntry_t* entries,
                       size_t count, size_t bytes, uint64_t id) {
  nvtxPayloadSchemaAttr_t attributes;
  memset(&attributes, 0xaa, sizeof attributes);  // what is not said to be set is not read
  attributes.fieldMask = FIELD(TYPE) | FIELD(ENTRIES) | FIELD(NUM_ENTRIES);
  attributes.type = type;
  attributes.entries = entries;
  attributes.numEntries = count;
  if (name != NULL) {
    attributes.fieldMask |= FIELD(NAME);
    attributes.name = name;
  }
  if (bytes != 0) {
    attributes.fieldMask |= FIELD(STATIC_SIZE);
    attributes.payloadStaticSize = bytes;
  }
  if (id != 0) {
    attributes.fieldMask |= FIELD(SCHEMA_ID);
    attributes.schemaId = id;
  }
  return nvtxPayloadSchemaRegister(domain, &attributes);
}

static void mark(const char* name, const nvtxPayloadData_t* payloads, int count) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attributes.reserved0 = count;
  attributes.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE((void*)payloads);
  nvtxDomainMarkEx(domain, &attributes);
}

static void one(const char* name, uint64_t id, const void* data, size_t bytes) {
  nvtxPayloadData_t payload = {id, bytes, data};
  mark(name, &payload, 1);
}

typedef struct {
  int8_t small;
  double real;
  const char* text;
  uint16_t triple[3];
  const char* none;
  nvtxStringHandle_t registered;
  const char16_t* wide;
} Plain;

static void structs(void) {
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT8, "small", "a small number"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "real"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text"},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_UINT16, "triple", NULL, 3},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8, "none"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "registered"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16, "wide"},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "plain", entries, LENGTH(entries), 0, 0);
  char text[] = "gone later";
  const nvtxStringHandle_t handle = nvtxDomainRegisterStringA(domain, "a handle");
  Plain plain = {-1, 0.5, text, {1, 2, 3}, NULL, handle, u"w\u00ef\U0001f600de"};
  one("struct", id, &plain, sizeof plain);
  memset(text, '?', sizeof text - 1);
  const nvtxPayloadSchemaEntry_t outer[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "tag"},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 0, "pair", NULL, 2},
  };
  nvtxPayloadSchemaEntry_t nested[2];
  memcpy(nested, outer, sizeof nested);
  nested[1].type = id;
  uint64_t pair = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "pair", nested, 2, 0, 0);
  struct {
    uint8_t tag;
    Plain pair[2];
  } two = {9, {plain, plain}};
  strcpy(text, "inner");
  one("nested", pair, &two, sizeof two);
}

// As XLA annotates: the same long texts with each event.
static void registered(void) {
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "code"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "place"},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "kernel", entries, LENGTH(entries), 0, 0);
  static char code[65331];
  memset(code, 'c', sizeof code - 1);
  nvtxStringHandle_t handles[] = {nvtxDomainRegisterStringA(domain, code),
                                  nvtxDomainRegisterStringA(domain, "model.py:7")};
  for (int i = 0; i < 100; ++i) one("kernel", id, handles, sizeof handles);
}

static void enums(void) {
  const nvtxPayloadEnum_t values[] = {{"RED", 1, 0}, {"GREEN", 2, 0}, {"BOLD", 256, 1}};
  nvtxPayloadEnumAttr_t attributes = {0};
  attributes.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
  attributes.name = "colour";
  attributes.entries = values;
  attributes.numEntries = 3;
  attributes.sizeOfEnum = 4;
  attributes.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5;
  uint64_t colour = nvtxPayloadEnumRegister(domain, &attributes);
  printf("%d ", colour == attributes.schemaId);
  const nvtxPayloadSchemaEntry_t entries[] = {{0, colour, "paint"}};
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, NULL, entries, 1, 4, 0);
  uint32_t value = 257;
  one("enum", id, &value, sizeof value);
}

static void ids(void) {
  const nvtxPayloadSchemaEntry_t entries[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "x"}};
  const nvtxPayloadSchemaEntry_t others[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, "y"}};
  const uint64_t own = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 77;
  const uint64_t kind = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  printf("%d ", schema(kind, "own", entries, 1, 4, own) == own);
  printf("%d ", schema(kind, "own", entries, 1, 4, own) == own);    // the same again
  printf("%d ", schema(kind, "own", others, 1, 8, own) == 0);       // another, with its id
  printf("%d ", schema(kind, "low", entries, 1, 4, 5) == 0);        // an id of NVTX's own
  printf("%d ", schema(kind, "empty", entries, 0, 4, 0) == 0);
  uint64_t dynamic = schema(kind, "chosen", entries, 1, 4, 0);
  printf("%d ", dynamic >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
  int32_t value = -3;
  one("static id", own, &value, sizeof value);
  one("unknown id", own + 1, &value, sizeof value);
  nvtxDomainHandle_t mine = domain;
  domain = nvtxDomainCreateA("another");
  printf("%d\n", schema(kind, "of another", others, 1, 8, own) == own);
  domain = mine;
}

static void plain_types(void) {
  double numbers[3] = {1, 2, 4};
  one("array", NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, numbers, sizeof numbers);
  one("characters", NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "to the end", (size_t)-1);
  one("raw", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, "\1\2\3\4\5\6\7\10\11", 9);
  one("nothing", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, "", 0);
  one("no size", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, "", (size_t)-1);
  one("no data", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, NULL, 8);
  char* large = calloc(1, 65537);
  one("largest", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, large, 65536);
  one("too large", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, large, 65537);
  nvtxPayloadData_t two[] = {{NVTX_PAYLOAD_ENTRY_TYPE_INT8, 1, "a"},
                             {NVTX_PAYLOAD_ENTRY_TYPE_INT8, 2, "bc"}};
  mark("two", two, 2);
  mark("a negative count", two, -1);
  mark("no payloads", NULL, 2);
}

typedef struct {
  uint32_t count;
  uint64_t* numbers;
  uint64_t length;
  const char* text;
} Pointers;

static void pointers(void) {
  const uint64_t by_index =
      NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX;
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "count"},
      {by_index | NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "numbers",
       NULL, 0},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "length"},
      {by_index, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8, "text", NULL, 2},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "pointers", entries, 4, 0, 0);
  uint64_t numbers[] = {10, 20, 30};
  Pointers good = {3, numbers, 4, "only four of them"};
  one("pointers", id, &good, sizeof good);
  one("half a struct", id, &good, 12);
  Pointers many = {1000000, numbers, 0, NULL};
  one("more than is copied", id, &many, sizeof many);
}

static void events(void) {
  const uint64_t message = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE;
  const nvtxPayloadSchemaEntry_t entries[] = {
      {message, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "name"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY, "category"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB, "colour"},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "event", entries, 3, 0, 0);
  const nvtxPayloadSchemaEntry_t wide[] = {
      {message, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32, "name", NULL, 8}};
  uint64_t inline_id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "inline", wide, 1, 32, 0);
  struct {
    const char* name;
    uint32_t category;
    uint32_t colour;
  } event = {"from a payload", 12, 0xff00ff00};
  nvtxPayloadData_t payload = {id, sizeof event, &event};
  nvtxMarkPayload(domain, &payload, 1);
  char32_t text[8] = U"w\u00efde";
  nvtxPayloadData_t in_place = {inline_id, sizeof text, text};
  printf("%d ", nvtxRangePushPayload(domain, &in_place, 1));
  event.name = "said at its end";
  printf("%d ", nvtxRangePopPayload(domain, &payload, 1));
  event.name = "started";
  nvtxRangeId_t started = nvtxRangeStartPayload(domain, &payload, 1);
  nvtxRangeEndPayload(domain, started, &in_place, 1);
  printf("%d ", nvtxDomainIsEnabled(domain));
  printf("%d\n", nvtxDomainIsEnabled(nvtxDomainCreateA("excluded")));
}

typedef struct {
  uint64_t size;
  int32_t values[5];
} Dynamic;

static void dynamic(void) {
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "size"},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "values"},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text"},
      {NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED,
       NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "name"},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC, "dynamic", entries, 4, 0, 0);
  char buffer[64];
  uint64_t size = 3;
  int32_t values[] = {1, -2, 3};
  memcpy(buffer, &size, 8);
  memcpy(buffer + 8, values, 12);
  strcpy(buffer + 20, "text");
  strcpy(buffer + 25, "name");
  nvtxPayloadData_t payload = {id, 30, buffer};
  nvtxMarkPayload(domain, &payload, 1);
  size = ~(uint64_t)0;  // a length that cannot be
  memcpy(buffer, &size, 8);
  nvtxMarkPayload(domain, &payload, 1);
}

static void unions(void) {
  const nvtxPayloadSchemaEntry_t members[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, "number"},
  };
  uint64_t either = schema(NVTX_PAYLOAD_SCHEMA_TYPE_UNION, "either", members, 2, 8, 0);
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "which"},
      {0, either, "value", NULL, 0, 8},
  };
  uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "choice", entries, 2, 16, 0);
  struct {
    uint32_t which;
    union {
      const char* text;
      int64_t number;
    } value;
  } choice = {0, {"chosen"}};
  one("text", id, &choice, sizeof choice);
  choice.which = 1;
  choice.value.number = 1;  // no pointer
  one("number", id, &choice, sizeof choice);
}

static void deferred(void) {
  nvtxEventSubmit(domain, NULL, 0);
  nvtxEventSubmit(domain, NULL, 0);
  nvtxEventBatch_t batch = {0};
  nvtxEventBatchSubmit(domain, &batch);
  nvtxCounterAttr_t counter = {0};
  counter.structSize = sizeof counter;
  counter.name = "loss";
  uint64_t id = nvtxCounterRegister(domain, &counter);
  nvtxCounterSampleFloat64(domain, id, 0.5);
  nvtxScopeAttr_t scope = {sizeof scope, "GPU[0]", NVTX_SCOPE_ROOT, 0};
  printf("%d %d %d\n", id != 0, nvtxScopeRegister(domain, &scope) != 0, nvtxTimestampGet() > 0);
  nvtxDomainMarkEx(domain, NULL);
}

static void* race(void* argument) {
  (void)argument;
  char text[32];
  for (int i = 0; i < 500; ++i) {
    snprintf(text, sizeof text, "entry %d", i);
    const nvtxPayloadSchemaEntry_t entries[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, text}};
    const uint64_t own = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 1000 + (uint64_t)i;
    const int64_t value = i;
    if (schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "own", entries, 1, 8, own) != own) puts("failed");
    uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, "given", entries, 1, 8, 0);
    one("race", id, &value, sizeof value);
  }
  return NULL;
}

static void races(void) {
  pthread_t threads[8];
  nvtxDomainIsEnabled(domain);  // makes the extension ready
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, race, NULL);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
}

static const struct {
  const char* name;
  void (*run)(void);
} scenarios[] = {
    {"structs", structs},         {"enums", enums},       {"ids", ids},
    {"plain_types", plain_types}, {"events", events},     {"dynamic", dynamic},
    {"pointers", pointers},       {"unions", unions},     {"deferred", deferred},
    {"races", races},             {"registered", registered},
};

int main(int count, char** arguments) {
  domain = nvtxDomainCreateA("payloads");
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i) {
    if (count == 2 && strcmp(arguments[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      return 0;
    }
  }
  return 2;
}
