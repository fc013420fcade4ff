# Two small tables as pyarrow writes them: snappy and nullable by default, gzip in three row groups.
import pyarrow as pa, pyarrow.parquet as pq, sys
out = sys.argv[1]
pq.write_table(pa.table({
    "note": ["a", "b", None, "d"],
    "value": pa.array([1.5, -2.0, None, 3.25], pa.float64()),
    "col": pa.array([0, 3, 1, 6], pa.int64()),
    "row": pa.array([0, 2, 1, 4], pa.int32()),
}), out + "/points.parquet")
schema = pa.schema([pa.field("lat", pa.float64(), False), pa.field("lon", pa.float64(), False), pa.field("value", pa.float32(), False), pa.field("sigma", pa.float32())])
pq.write_table(pa.table({"lat": [48.85708223481726, 48.85690567784972, 48.856729119384184], "lon": [8.059387352109416, 8.059799655436876, 8.060211955876273], "value": [-80.5, -81.0, -90.25], "sigma": [0.5, None, 1.0]}, schema=schema),
    out + "/points_gzip.parquet", compression="gzip", row_group_size=1, use_dictionary=False, data_page_version="2.0")
